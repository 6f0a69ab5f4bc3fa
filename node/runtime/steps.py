"""Work that may be too long for one turn of the loop.

A task yields to the loop with `yield_to_loop` (`transport.scheduling.events`). A synchronous task (a decision, a
replay) is a generator, `Steps`: it yields the amount of work since its last yield. Its runner adds up the amounts, and
lets other tasks run after enough of them (`trimaran.node.replicated.operations`). The unit is a record or a partition
that was decided on, encoded or replayed: about 20 µs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from trimaran.log.steps import Steps, at_once

__all__ = ["Steps", "at_once", "pieces"]

T = TypeVar("T")


def pieces(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yields batches of a snapshot of `items`; callers must check that each item is still valid."""
    listed = list(items)
    for start in range(0, len(listed), size):
        yield listed[start : start + size]
