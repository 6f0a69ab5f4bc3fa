"""Tasks on simulated time: a real controller or broker is a set of trio tasks, so a run with one takes place inside
`trio.run`. trio's clock shows the simulated time. After each event, tasks run until all of them wait for a later event.
The order of ready tasks is drawn from the seed; the world's own task comes last, so that no other task is still ready.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Coroutine, MutableSequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any, Protocol, TypeVar
from unittest import mock

import trio
from trio._core import _run as scheduler

from tests.simulation.checker import Violation
from tests.simulation.here import patched_here
from trimaran.node.runtime import pacing

T = TypeVar("T")

# Limit of turns between two events; a request for far too many topics takes a few hundred.
TURNS_MAX = 5000


class Timed(Protocol):
    """The part of a world that its tasks use; `between_turns` is called between two turns of the tasks."""

    @property
    def now(self) -> float: ...

    @property
    def seed(self) -> int: ...

    def between_turns(self) -> None: ...


def step_through(play: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine that never waits; returns its result."""
    try:
        play.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    raise AssertionError("it waits")


class _Clock(trio.abc.Clock):
    def __init__(self, world: Timed) -> None:
        self._world = world

    def start_clock(self) -> None:
        pass

    def current_time(self) -> float:
        return self._world.now

    def deadline_to_sleep_time(self, _deadline: float) -> float:
        return 0.0


class _Turns(random.Random):
    """The random order of ready tasks. trio takes tasks from the end of a list that it shuffles; the task `last` goes
    to the front, so that it runs after all others.
    """

    last: trio.lowlevel.Task | None = None

    def shuffle(self, ready: MutableSequence[Any]) -> None:
        super().shuffle(ready)
        if self.last in ready:
            ready.remove(self.last)
            ready.insert(0, self.last)


class Tasks:
    def __init__(self, world: Timed) -> None:
        self._world = world
        self._nursery: trio.Nursery | None = None
        self._turns = _Turns(world.seed)

    def run(self, play: Callable[[], Awaitable[T]], *patches: AbstractContextManager[object]) -> T:
        """Runs `play` in `trio.run` with `patches` in place; returns its result."""
        with ExitStack() as stack:
            stack.enter_context(patched_here(scheduler, "_r", self._turns))
            stack.enter_context(
                mock.patch.object(scheduler, "_ALLOW_DETERMINISTIC_SCHEDULING", new=True)
            )
            # Simulated time does not pass while tasks run.
            stack.enter_context(mock.patch.object(pacing, "HOLD_SECONDS_MAX", 0))
            for patch in patches:
                stack.enter_context(patch)
            try:
                return trio.run(self._main, play, clock=_Clock(self._world))
            except BaseExceptionGroup as failures:
                raise _first(failures) from None

    async def _main(self, play: Callable[[], Awaitable[T]]) -> T:
        self._turns.last = trio.lowlevel.current_task()
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            result = await play()
            nursery.cancel_scope.cancel()
        return result

    def start(self, task: Callable[..., Awaitable[object]], *args: object) -> None:
        assert self._nursery is not None
        self._nursery.start_soon(task, *args)

    async def settle(self) -> None:
        runner = scheduler.GLOBAL_RUN_CONTEXT.runner
        turns = 0
        # the same values as in `current_statistics`, which would take a tenth of a run's time
        while runner.runq or runner.deadlines.next_deadline() <= self._world.now:
            turns += 1
            if turns > TURNS_MAX:
                raise Violation(f"L1 more than {TURNS_MAX} turns: a task is busy in a loop")
            await trio.lowlevel.checkpoint()
            self._world.between_turns()

    @property
    def next_deadline(self) -> float:
        """The earliest deadline of a task."""
        deadline: float = scheduler.GLOBAL_RUN_CONTEXT.runner.deadlines.next_deadline()
        return deadline


def _first(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    """Returns the first violation, or the first failure if there is none."""
    found, _ = failures.split(Violation)
    one: BaseException = found or failures
    while isinstance(one, BaseExceptionGroup):
        one = one.exceptions[0]
    return one
