"""Patches that take effect only in the thread of a simulation. A simulation replaces clocks, randomness and threads,
while an embedded real broker of an earlier test may still be running in another thread.
"""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock


class _Here:
    """A proxy of `mine` in the thread that created it, and of `others` in all other threads."""

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
    """Patches a function or object like `mock.patch.object`, but only for this thread."""
    return mock.patch.object(target, name, _Here(mine, getattr(target, name)))
