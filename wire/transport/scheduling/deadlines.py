"""Calls that are pending until a value (an offset or a time) is reached; most of them are cancelled before that.

A cancel scope for each wait with a time limit costs about forty calls, more than the wait itself. Here one task sleeps
until the earliest moment.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from math import inf

import trio

from trimaran.wire.transport.scheduling.alarm import Alarm


class PendingCall:
    """A function that will be called once. `call` is None once it was called or is no longer needed."""

    __slots__ = ("_all", "call", "limit")

    def __init__(self, pending: PendingCalls, call: Callable[[], object]) -> None:
        self.call: Callable[[], object] | None = call
        self.limit: PendingCall | None = None
        self._all = pending

    def stop(self) -> None:
        """Cancels the call."""
        if self.call is not None:
            self.call = None
            self._all.stopped += 1
            if self.limit is not None:
                self.limit.stop()

    def time_out(self) -> None:
        """Calls the function now, because the time limit is reached."""
        call = self.call
        assert call is not None
        self.stop()
        call()


class PendingCalls:
    """The pending calls for one value that grows. `call_up_to` costs O(called · log pending).

    Their number is bounded by twice the pending waits: there are at most as many stopped calls as pending ones.
    """

    __slots__ = ("_heap", "_on_earlier", "_serial", "next_at", "stopped")

    def __init__(self, on_earlier: Callable[[float], object] | None = None) -> None:
        """`on_earlier` is called with `next_at` when `next_at` decreases."""
        # A lower bound of the values at which a call is due.
        self.next_at = inf
        self.stopped = 0  # the number of stopped calls in the heap
        self._heap: list[tuple[float, int, PendingCall]] = []
        self._on_earlier = on_earlier
        self._serial = 0

    def add(self, at: float, call: Callable[[], object], deadline: float = inf) -> PendingCall:
        """Calls `call` once when the value reaches `at`, or at `deadline` in trio's seconds. It must not raise."""
        if self.stopped * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].call is not None]
            heapq.heapify(self._heap)
            self.stopped = 0
        pending = PendingCall(self, call)
        if deadline < inf:
            pending.limit = deadlines().add(deadline, pending.time_out)
        self._serial += 1
        heapq.heappush(self._heap, (at, self._serial, pending))
        if at < self.next_at:
            self.next_at = at
            if self._on_earlier is not None:
                self._on_earlier(at)
        return pending

    def call_up_to(self, value: float) -> None:
        """Calls all functions that are due at `value` or below, in order."""
        while self._heap and self._heap[0][0] <= value:
            pending = heapq.heappop(self._heap)[2]
            call, pending.call = pending.call, None
            if call is None:
                self.stopped -= 1
                continue
            if pending.limit is not None:
                pending.limit.stop()
            call()
        self.next_at = self._heap[0][0] if self._heap else inf


class Deadlines(PendingCalls):
    """The deadlines of one trio run, in trio's seconds; see `deadlines`. Each call is made as soon after its deadline
    as the loop allows.
    """

    __slots__ = ("_alarm",)

    def __init__(self) -> None:
        self._alarm = Alarm(self._ring)
        super().__init__(self._alarm.set)

    def _ring(self) -> None:
        self.call_up_to(trio.current_time())
        self._alarm.set(self.next_at)

    async def run(self) -> None:
        """Makes due calls until the trio run ends."""
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
