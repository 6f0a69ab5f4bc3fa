"""Events that can be set repeatedly, unlike `trio.Event`, which is set once; and functions by which tasks let other
tasks run.

An event does not define the order of waking, and has no value: the waiter checks the state.
"""

from __future__ import annotations

from math import inf

import trio

from trimaran.wire.transport.scheduling.deadlines import deadlines

yield_to_loop = trio.lowlevel.checkpoint
"""Runs every other ready task once, and is a cancellation point. It is renamed because trio's name suggests the rule
that async functions have a checkpoint.
"""


class AutoResetEvent:
    """An event for one waiting task, which resets it by waiting: a `set` before the wait, or while the task works, is
    not lost.

    Several `set` between two waits count as one.
    """

    __slots__ = ("_is_set", "_task")

    def __init__(self) -> None:
        self._is_set = False
        self._task: trio.lowlevel.Task | None = None  # the waiting task

    def set(self) -> None:
        self._is_set = True
        if self._task is not None:
            self._wake()

    def _wake(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            trio.lowlevel.reschedule(task)

    def is_set(self) -> bool:
        return self._is_set

    async def wait(self, deadline: float = inf) -> bool:
        """Returns True once the event is set, or False at `deadline`, in trio's seconds; a cancelled wait leaves it
        set.
        """
        if self._is_set:
            await yield_to_loop()
        else:
            assert self._task is None, "two tasks wait"
            self._task = trio.lowlevel.current_task()
            limit = None if deadline == inf else deadlines().add(deadline, self._wake)
            try:
                await trio.lowlevel.wait_task_rescheduled(self._give_up)
            finally:
                if limit is not None:
                    limit.stop()
        was_set, self._is_set = self._is_set, False
        return was_set

    def _give_up(self, _raise_cancel: object) -> trio.lowlevel.Abort:
        self._task = None
        return trio.lowlevel.Abort.SUCCEEDED


class Notifier:
    """Wakes all waiting tasks, like `trio.Condition`, but without a lock: state changes only between checkpoints."""

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event: trio.Event | None = None  # None while no task waits

    def notify_all(self) -> None:
        event, self._event = self._event, None
        if event is not None:
            event.set()

    async def wait(self) -> None:
        """Returns at the next `notify_all`. Check the state first: earlier notifications are not repeated."""
        if self._event is None:
            self._event = trio.Event()
        await self._event.wait()
