"""An offset that only grows; waiters are woken when their offset is reached.

Tasks outside an epoch (the writers of connections) wait here, so the end of the epoch must reach them as an error that
they can respond with, never as a cancellation of a scope that they are not in. Not implemented: offsets that go back; a
new epoch has a new watermark.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from functools import partial
from math import inf

import trio

from trimaran.node.runtime.errors import NotLeaderError
from trimaran.wire.identity import Offset
from trimaran.wire.transport.scheduling.deadlines import deadlines


class Waiting:
    """A function that a watermark calls. `call` is None once it was called or is no longer needed."""

    __slots__ = ("_watermark", "call", "limit")

    def __init__(self, watermark: Watermark, call: Callable[[], object], deadline: float) -> None:
        self.call: Callable[[], object] | None = call
        self.limit = None if deadline == inf else deadlines().add(deadline, self._time_out)
        self._watermark = watermark

    def stop(self) -> None:
        """Does not call back any more."""
        if self.call is not None:
            self.call = None
            self._watermark.dead += 1
            if self.limit is not None:
                self.limit.stop()

    def _time_out(self) -> None:
        call = self.call
        assert call is not None
        self.stop()
        call()


class Watermark:
    """A monotonic offset. `advance` costs O(woken · log waiting): a thousand waiters for other offsets are not
    disturbed.

    `offset` and `closed` are plain attributes instead of properties, because each Produce reads them several times.
    """

    __slots__ = ("_heap", "_serial", "closed", "dead", "offset")

    def __init__(self, offset: Offset = Offset(0)) -> None:
        self.offset = offset
        self.closed = False
        # (offset waited for, serial, wait). As many as there are requests in flight, which the transport bounds,
        # plus at most as many dead entries of cancelled or expired waiters.
        self._heap: list[tuple[Offset, int, Waiting]] = []
        self.dead = 0
        self._serial = 0

    def reached(self, offset: Offset) -> bool:
        """Returns whether `wait_reached(offset)` would return without waiting."""
        return self.offset >= offset

    def advance(self, offset: Offset) -> None:
        """Moves to `offset`, which is never below the present one, and wakes its waiters."""
        assert not self.closed, "the epoch has ended"
        assert offset >= self.offset, (offset, self.offset)
        self.offset = offset
        while self._heap and self._heap[0][0] <= offset:
            self._pop()

    def close(self) -> None:
        """Ends all present and future waits for offsets that are not reached, with NotLeaderError."""
        self.closed = True
        while self._heap:
            self._pop()

    def _pop(self) -> None:
        wait = heapq.heappop(self._heap)[2]
        call, wait.call = wait.call, None
        if call is None:
            self.dead -= 1
            return
        if wait.limit is not None:
            wait.limit.stop()
        call()

    async def wait_reached(self, offset: Offset, deadline: float = inf) -> None:
        """Returns once `.offset >= offset`, or at `deadline` in trio's seconds; the caller must check which.

        Raises:
            NotLeaderError: the watermark was closed before the offset was reached.
        """
        if self.offset >= offset or self.closed:
            await trio.lowlevel.checkpoint()
        else:
            await self._wait(offset, deadline)
        if self.closed and self.offset < offset:
            raise NotLeaderError

    async def _wait(self, offset: Offset, deadline: float) -> None:
        wake = partial(trio.lowlevel.reschedule, trio.lowlevel.current_task())
        wait = self._add(offset, wake, deadline)

        def give_up(_raise_cancel: object) -> trio.lowlevel.Abort:
            wait.stop()
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(give_up)

    def when_reached(
        self, offset: Offset, call: Callable[[], object], deadline: float = inf
    ) -> Waiting | None:
        """Calls `call` once, when `.offset >= offset`, at the end of the epoch, or at `deadline`. It must not raise.

        Returns None if it was called at once.
        """
        if self.offset >= offset or self.closed:
            call()
            return None
        return self._add(offset, call, deadline)

    def _add(self, offset: Offset, call: Callable[[], object], deadline: float) -> Waiting:
        if self.dead * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].call is not None]
            heapq.heapify(self._heap)
            self.dead = 0
        self._serial += 1
        wait = Waiting(self, call, deadline)
        heapq.heappush(self._heap, (offset, self._serial, wait))
        return wait
