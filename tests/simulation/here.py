"""The replacements of clocks, chance and threads by a simulation count in its own thread only: in another one a real
broker may run, embedded by the test before.
"""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock


class _Here:
    """`mine` in the thread that made it, `others` in all others."""

    def __init__(self, mine: Any, others: Any) -> None:
        self._thread = threading.get_ident()
        self._mine = mine
        self._others = others

    def _own(self) -> Any:
        return self._mine if threading.get_ident() == self._thread else self._others

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self._own()(*args, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own(), name)


def patched_here(target: Any, name: str, mine: Any) -> AbstractContextManager[object]:
    """As `mock.patch.object`, for functions and objects, in this thread."""
    return mock.patch.object(target, name, _Here(mine, getattr(target, name)))
