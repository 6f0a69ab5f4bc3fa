"""Tasks on simulated time: the real controller is a set of trio tasks, so a run that has one takes place inside `trio.run`.

trio's clock shows the time of the world; after each event its tasks run until all of them wait for something that is still to come.
Which of several that are ready goes first is drawn from the seed; the world goes last, so that nobody is left who could have gone on.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Coroutine, MutableSequence
from typing import TYPE_CHECKING, Any, TypeVar
from unittest import mock

import trio
from trio._core import _run as scheduler

from quorum.controller import controller, operation_queue
from tests.simulation.checker import Violation

if TYPE_CHECKING:
    from tests.simulation.world import World

T = TypeVar("T")

# Of the tasks between two events; a request for far too many topics takes some hundred.
TURNS_MAX = 5000

# So few that most decisions take several turns, and others are asked for meanwhile; in real life 500.
STEPS_PER_TURN = 4


def step_through(play: Coroutine[Any, Any, T]) -> T:
    """Runs what never waits."""
    try:
        play.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    raise AssertionError("it waits")


class _Clock(trio.abc.Clock):
    def __init__(self, world: World) -> None:
        self._world = world

    def start_clock(self) -> None:
        pass

    def current_time(self) -> float:
        return self._world.now

    def deadline_to_sleep_time(self, _deadline: float) -> float:
        return 0.0


class _Turns(random.Random):
    """trio takes those that are ready from the end of a list that it has shuffled. `last` of them finds all that are ready now in its queue."""

    last: trio.lowlevel.Task | None = None

    def shuffle(self, ready: MutableSequence[Any]) -> None:
        super().shuffle(ready)
        if self.last in ready:
            ready.remove(self.last)
            ready.insert(0, self.last)


class Tasks:
    def __init__(self, world: World) -> None:
        self._world = world
        self._nursery: trio.Nursery | None = None
        self._turns = _Turns(world.seed)

    def run(self, play: Callable[[], Awaitable[T]], is_gone: Callable[..., Awaitable[bool]]) -> T:
        """`is_gone` stands for the one question that the controller asks by sockets of its own."""
        with (
            mock.patch.object(scheduler, "_r", self._turns),
            mock.patch.object(scheduler, "_ALLOW_DETERMINISTIC_SCHEDULING", new=True),
            mock.patch.object(controller, "broker_is_down", is_gone),
            mock.patch.object(operation_queue, "STEPS_PER_TURN", STEPS_PER_TURN),
            mock.patch.object(
                operation_queue, "OBJECTS_PER_STEP", 0
            ),  # a frozen world would stay for ever
        ):
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
        # what `current_statistics` says, without a tenth of the time of a run
        while runner.runq or runner.deadlines.next_deadline() <= self._world.now:
            turns += 1
            if turns > TURNS_MAX:
                raise Violation(f"L1 more than {TURNS_MAX} turns: a task is busy in a loop")
            await trio.lowlevel.checkpoint()
            self._world.settle_proposals()


def _first(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    """A violation if there is one, else whatever failed first."""
    found, _ = failures.split(Violation)
    one: BaseException = found or failures
    while isinstance(one, BaseExceptionGroup):
        one = one.exceptions[0]
    return one
