"""An offset that only grows; waiters are woken when their offset is reached.

Tasks outside an epoch (the writers of connections) wait here, so the end of the epoch must reach them as an error that
they can respond with, never as a cancellation of a scope that they are not in. A watermark never moves
backwards; a new epoch has a new one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf

import trio

from trimaran.node.runtime.errors import NotLeaderError
from trimaran.wire.identity import Offset
from trimaran.wire.transport.scheduling.deadlines import PendingCall, PendingCalls


class Watermark:
    """A monotonic offset. `advance` costs O(woken · log waiting): a thousand waiters for other offsets are not
    disturbed.

    `offset` and `closed` are plain attributes instead of properties, because each Produce reads them several times.
    """

    __slots__ = ("_waits", "closed", "offset")

    def __init__(self, offset: Offset = Offset(0)) -> None:
        self.offset = offset
        self.closed = False
        # As many as there are requests in flight, which the transport bounds.
        self._waits = PendingCalls()

    def reached(self, offset: Offset) -> bool:
        """Returns whether `wait_reached(offset)` would return without waiting."""
        return self.offset >= offset

    def advance(self, offset: Offset) -> None:
        """Moves to `offset`, which is never below the present one, and wakes its waiters."""
        assert not self.closed, "the epoch has ended"
        assert offset >= self.offset, (offset, self.offset)
        self.offset = offset
        if offset >= self._waits.next_at:
            self._waits.call_up_to(offset)

    def close(self) -> None:
        """Ends all present and future waits for offsets that are not reached, with NotLeaderError."""
        self.closed = True
        self._waits.call_up_to(inf)

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
        wait = self._waits.add(offset, wake, deadline)

        def give_up(_raise_cancel: object) -> trio.lowlevel.Abort:
            wait.stop()
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(give_up)

    def when_reached(
        self, offset: Offset, call: Callable[[], object], deadline: float = inf
    ) -> PendingCall | None:
        """Calls `call` once, when `.offset >= offset`, at the end of the epoch, or at `deadline`. It must not raise.

        Returns None if it was called immediately.
        """
        if self.offset >= offset or self.closed:
            call()
            return None
        return self._waits.add(offset, call, deadline)
