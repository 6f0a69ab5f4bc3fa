"""Work that may be too long for one turn of the loop.

A task gives up the loop with `yield_to_loop` (`transport.scheduling.events`). What may not be async (a decision, a
replay) is a generator, `Steps`: it yields how much it has done since it last did; who runs it counts, and lets others
have their turn when it was enough (`trimaran.node.replicated.operations`). The unit is a record or a partition
that was decided on, encoded or replayed: some 20 µs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from trimaran.log.steps import Steps, at_once

__all__ = ["Steps", "at_once", "pieces"]

T = TypeVar("T")


def pieces(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """The items of now, so many at a time; who works them off looks again at what each has become."""
    listed = list(items)
    for start in range(0, len(listed), size):
        yield listed[start : start + size]
