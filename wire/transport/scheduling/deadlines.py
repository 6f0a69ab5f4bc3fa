"""Deadlines that are rarely reached: nearly every wait with a time limit ends before its limit.

A cancel scope for each wait costs some forty calls, more than the wait. Here one task sleeps until the earliest moment.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from math import inf

import trio

from trimaran.wire.transport.scheduling.alarm import Alarm


class Deadline:
    """A deadline, pending until it is reached or `stop` is called."""

    __slots__ = ("_all", "ring")

    def __init__(self, deadlines: Deadlines, ring: Callable[[], object]) -> None:
        self._all = deadlines
        self.ring: Callable[[], object] | None = ring

    def stop(self) -> None:
        """Cancels the callback."""
        if self.ring is not None:
            self.ring = None
            self._all.stopped += 1


class Deadlines:
    """The deadlines of one trio run; see `deadlines`. Their number is bounded by twice the pending waits of the run."""

    __slots__ = ("_alarm", "_heap", "_next_at", "_serial", "stopped")

    def __init__(self) -> None:
        self.stopped = 0  # the number of stopped deadlines in the heap
        self._alarm = Alarm(self._ring)
        self._heap: list[tuple[float, int, Deadline]] = []
        self._next_at = inf
        self._serial = 0

    def add(self, at: float, ring: Callable[[], object]) -> Deadline:
        """Calls `ring` once at that time, in trio's seconds, or as soon afterwards as the loop allows. It must not
        raise.
        """
        if self.stopped * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].ring is not None]
            heapq.heapify(self._heap)
            self.stopped = 0
        deadline = Deadline(self, ring)
        self._serial += 1
        heapq.heappush(self._heap, (at, self._serial, deadline))
        if at < self._next_at:
            self._next_at = at
            self._alarm.set(at)
        return deadline

    def _ring(self) -> None:
        now = trio.current_time()
        while self._heap and self._heap[0][0] <= now:
            deadline = heapq.heappop(self._heap)[2]
            ring, deadline.ring = deadline.ring, None
            if ring is None:
                self.stopped -= 1
            else:
                ring()
        self._next_at = self._heap[0][0] if self._heap else inf
        self._alarm.set(self._next_at)

    async def run(self) -> None:
        """Calls back until the trio run ends."""
        await self._alarm.run()


_of_run: trio.lowlevel.RunVar[Deadlines] = trio.lowlevel.RunVar(
    "trimaran.wire.transport.scheduling.deadlines"
)


def deadlines() -> Deadlines:
    """Returns the deadlines of this run."""
    try:
        return _of_run.get()
    except LookupError:
        found = Deadlines()
        _of_run.set(found)
        trio.lowlevel.spawn_system_task(found.run)
        return found
