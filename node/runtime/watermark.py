"""An offset that only grows, with waiters that are woken when theirs is reached.

Tasks outside an epoch (the writers of connections) wait here, so the end of the epoch must reach them as an error that
they can answer with, never as a cancellation of a scope that they are not inside. Not implemented: offsets that go
back; a new epoch makes a new watermark.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

import outcome
import trio

from trimaran.node.runtime.errors import NotLeaderError
from trimaran.wire.identity import Offset


class _Waiter:
    """One waiting task, in the heap of each watermark it waits for; `task` is None once it was woken or gave up."""

    __slots__ = ("marks", "task")

    def __init__(self, task: trio.lowlevel.Task, marks: list[Watermark]) -> None:
        self.task: trio.lowlevel.Task | None = task
        self.marks = marks

    def wake(self) -> None:
        if self.task is not None:
            task = self.task
            self.give_up()
            trio.lowlevel.reschedule(task, outcome.Value(None))

    def give_up(self) -> None:
        self.task = None
        for mark in self.marks:
            mark._dead += 1  # noqa: SLF001 - same module


class Watermark:
    """`advance` costs O(woken · log waiting): a thousand waiters for other offsets are not disturbed.

    `offset` and `closed` are for others to read: several times for each Produce, so they are no properties.
    """

    __slots__ = ("_dead", "_heap", "_serial", "closed", "offset")

    def __init__(self, offset: Offset = Offset(0)) -> None:
        self.offset = offset
        self.closed = False
        # (offset waited for, serial, waiter). As many as there are requests in flight, which the transport bounds,
        # plus at most as many dead entries of waiters that were cancelled or woken by another watermark.
        self._heap: list[tuple[Offset, int, _Waiter]] = []
        self._dead = 0
        self._serial = 0

    def reached(self, offset: Offset) -> bool:
        """True if `wait_reached(offset)` would return without waiting."""
        return self.offset >= offset

    def advance(self, offset: Offset) -> None:
        """Moves to `offset`, which is never below the present one, and wakes those who waited for it."""
        assert not self.closed, "the epoch has ended"
        assert offset >= self.offset, (offset, self.offset)
        self.offset = offset
        while self._heap and self._heap[0][0] <= offset:
            self._pop()

    def close(self) -> None:
        """Ends every wait for an offset not reached, now and later, with NotLeaderError."""
        self.closed = True
        while self._heap:
            self._pop()

    def _pop(self) -> None:
        heapq.heappop(self._heap)[2].wake()
        self._dead -= 1

    async def wait_reached(self, offset: Offset) -> None:
        """Returns once `.offset >= offset`.

        Raises:
            NotLeaderError: closed before it was reached.
        """
        if self.offset >= offset:
            await trio.lowlevel.checkpoint()
            return
        await wait_any_reached([(self, offset)])
        if self.offset < offset:
            raise NotLeaderError

    def _add(self, offset: Offset, waiter: _Waiter) -> None:
        if self._dead * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].task is not None]
            heapq.heapify(self._heap)
            self._dead = 0
        self._serial += 1
        heapq.heappush(self._heap, (offset, self._serial, waiter))


async def wait_any_reached(wanted: Iterable[tuple[Watermark, Offset]]) -> None:
    """Returns as soon as any watermark has reached its offset or is closed; the caller looks which.

    A long poll over many partitions waits so, with one wait and no task of its own for each.
    """
    pairs = list(wanted)
    if any(mark.closed or mark.offset >= offset for mark, offset in pairs):
        await trio.lowlevel.checkpoint()
        return
    waiter = _Waiter(trio.lowlevel.current_task(), [mark for mark, _ in pairs])
    for mark, offset in pairs:
        mark._add(offset, waiter)  # noqa: SLF001 - same module

    def abort(_raise_cancel: object) -> trio.lowlevel.Abort:
        waiter.give_up()
        return trio.lowlevel.Abort.SUCCEEDED

    await trio.lowlevel.wait_task_rescheduled(abort)
