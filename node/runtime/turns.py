"""Long work on the loop, with checkpoints so that other tasks get their turns."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from trimaran.node.runtime.steps import Steps, pieces
from trimaran.wire.transport.scheduling.events import yield_to_loop

T = TypeVar("T")


async def piece_by_piece(items: Iterable[T], size: int, work: Callable[[list[T]], object]) -> None:
    """Calls `work` with batches of the items. Other tasks run after each full batch, so a small one is neither delayed
    nor delays them.
    """
    for batch in pieces(items, size):
        work(batch)
        if len(batch) == size:
            await yield_to_loop()


async def in_turns(items: Iterable[object], per_turn: int) -> None:
    """Iterates over `items`, and lets other tasks run after every `per_turn` items."""
    for count, _ in enumerate(items, 1):
        if count % per_turn == 0:
            await yield_to_loop()


async def with_checkpoints(steps: Steps[T], per_turn: int) -> T:
    """Runs the steps to their end; other tasks run after each `per_turn` of work."""
    done = 0
    while True:
        try:
            done += next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        if done >= per_turn:
            done = 0
            await yield_to_loop()
