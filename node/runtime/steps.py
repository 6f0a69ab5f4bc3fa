"""Work that may be too long for one turn of the loop.

A task gives up the loop with `yield_to_loop`. What may not be async (a decision, a replay) is a generator, `Steps`: it
yields how much it has done since it last did; who runs it counts, and lets others have their turn when it was enough
(`quorum.controller.operation_queue`). The unit is a record or a partition that was decided on, encoded or replayed:
some 20 µs.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import TypeVar

import trio

T = TypeVar("T")

Steps = Generator[int, None, T]


def pieces(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


def at_once(steps: Steps[T]) -> T:
    """Runs to the end; for what is known to be short."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


async def yield_to_loop() -> None:
    """Lets every task that is ready run once, and cancellation in. A bare `checkpoint` elsewhere is trio's rule that
    async functions have one.
    """
    await trio.lowlevel.checkpoint()
