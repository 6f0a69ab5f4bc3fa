"""Long work of background tasks: the other tasks run whenever one task has held the loop for a while."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Any, Generic, TypeVar

import trio

from trimaran.wire.errors import KafkaError
from trimaran.wire.transport.scheduling.effects import Compute, Effect, Handling
from trimaran.wire.transport.scheduling.events import yield_to_loop

T = TypeVar("T")

# The time in seconds for which a background task may hold the loop, not counting one item: a request waits that much
# longer. 0 lets the other tasks run before each item, which tests and simulations need, because their clocks do not
# advance.
HOLD_SECONDS_MAX = 0.005


class Paced(Generic[T]):
    """Iterates over items (`async for`), and lets other tasks run between two of them once `HOLD_SECONDS_MAX` are over
    by the clock of the run. The state may have changed then. No checkpoint lies between the last look at the items and
    the end of the loop.
    """

    __slots__ = ("_ends", "_items")

    def __init__(self, items: Iterable[T]) -> None:
        self._items = iter(items)
        self._ends = trio.current_time() + HOLD_SECONDS_MAX

    def __aiter__(self) -> Paced[T]:
        return self

    async def pause_if_due(self) -> None:
        if trio.current_time() >= self._ends:
            await yield_to_loop()
            self._ends = trio.current_time() + HOLD_SECONDS_MAX

    async def __anext__(self) -> T:
        await self.pause_if_due()
        try:
            return next(self._items)
        except StopIteration:
            raise StopAsyncIteration from None


async def run_paced(steps: Generator[object, None, T]) -> T:
    """Runs `steps` to the end as `Paced` does, and returns their result."""
    paced = Paced[None](())
    while True:
        await paced.pause_if_due()
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


async def run_handling(handling: Handling[T]) -> T:
    """Runs a part of a handler for a task that is not a request, as `run_paced` does, and carries out its `Wait` and
    `Blocking` effects. Not implemented: `Compute`.
    """
    paced = Paced[None](())
    resume: Callable[[Any], Effect] = handling.send
    value: Any = None
    while True:
        await paced.pause_if_due()
        try:
            effect = resume(value)
        except StopIteration as end:
            result: T = end.value
            return result
        resume, value = handling.send, None
        if effect is not None:
            assert not isinstance(effect, Compute)
            try:
                value = await effect.wait()
            except KafkaError as error:
                resume, value = handling.throw, error
