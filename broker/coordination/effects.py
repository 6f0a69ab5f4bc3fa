"""Carries out the effects of a shard's inputs: responses, the shard's own writes, follow-ups, deadlines.

Belongs to one epoch of a serving shard. It has two tasks: one sleeps until the earliest deadline, the other waits for
the commit that the first write or follow-up depends on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from math import inf
from typing import Any, Generic, NamedTuple, TypeVar

import trio

from trimaran.broker.coordination.shard import CoordinatorShard, Write
from trimaran.broker.coordination.timers import Instant
from trimaran.node.replicated.pending import Progress
from trimaran.node.runtime.clock import now_ms
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import Offset
from trimaran.wire.transport.scheduling.events import AutoResetEvent, yield_to_loop
from trimaran.wire.transport.scheduling.slice_end import slice_end

R = TypeVar("R")
W = TypeVar("W", bound=Write[Any])

E = ErrorCode

# The number of follow-ups that begin between two checkpoints, one task each: 2 ms of work. After a fail-over there may
# be tens of thousands.
FOLLOW_UPS_AT_ONCE = 200


def current_instant() -> Instant:
    """Returns the current time, by the event loop's clock and the wall clock."""
    return Instant(trio.current_time(), now_ms())


class _Uncommitted(NamedTuple, Generic[W]):
    write: W
    end_offset: Offset
    deadline: float


class UncommittedWrites(deque[_Uncommitted[W]]):
    """A shard's own writes that are in the log but not committed. They are in log order, so offsets and deadlines
    ascend; their number is bounded by the writes of a shard within one commit timeout.
    """

    def add(self, write: W, end_offset: Offset, deadline: float) -> None:
        """Adds a write that ends at `end_offset` in the log; it expires at `deadline`, in monotonic seconds."""
        self.append(_Uncommitted(write, end_offset, deadline))

    def pop_committed(self, high_watermark: Offset) -> list[W]:
        """Removes and returns the committed writes, in order."""
        committed = []
        while self and self[0].end_offset <= high_watermark:
            committed.append(self.popleft().write)
        return committed

    def pop_expired(self, now: float) -> list[W]:
        """Removes and returns the writes that were not committed in time, in order."""
        expired = []
        while self and self[0].deadline <= now:
            expired.append(self.popleft().write)
        return expired


class EffectRunner(Generic[R]):
    """Carries out the effects of a shard; `settle` must be called after each input.

    Args:
        write: appends and replays a write of the shard. Raises KafkaError if it was not written, or only in part.
        begin: begins a follow-up.
    """

    def __init__(
        self,
        shard: CoordinatorShard[R],
        progress: Progress,
        write: Callable[[Write[R]], object],
        begin: Callable[[str], object],
    ) -> None:
        self._shard = shard
        self._progress = progress
        self._write = write
        self._begin = begin
        self.closed = False
        self._uncommitted = UncommittedWrites[Write[R]]()
        # The names of follow-ups, each with the offset whose commit it waits for; oldest first.
        self._follow_ups = deque[tuple[Offset, str]]()
        self._retimed = AutoResetEvent()
        # The time until which the timer task sleeps; -inf while it is awake, because it checks the deadlines before it
        # sleeps.
        self._sleeping_until = -inf
        self._awaits_commit = False
        self._commit_came = AutoResetEvent()

    def close(self) -> None:
        """Ends the epoch: all requests that wait in the shard are answered."""
        self.closed = True
        self._shard.close(current_instant())
        for pending, response in self._shard.take().responses:
            pending.complete(response)

    def settle(self) -> None:
        """Writes and responds until there are no further effects, including those of writes that are committed
        immediately.
        """
        if self.closed:
            return  # the epoch was closed while a task was being woken
        shard = self._shard
        while True:
            effects = shard.take()
            for write in effects.writes:
                self._store(write)
            for pending, response in effects.responses:
                pending.complete(response)
            for name in effects.follow_ups:
                self._follow_ups.append((self._progress.end_offset, name))
            committed = None
            if self._uncommitted:
                committed = self._uncommitted.pop_committed(self._progress.committed.offset)
                for write in committed:
                    shard.written(write, E.NONE, current_instant())
            if not effects.writes and not committed:
                break
        if self._follow_ups and self._progress.committed.reached(self._follow_ups[0][0]):
            # The responses of the current slice of requests are sent first.
            slice_end().then(self._begin_follow_ups)
        elif self._uncommitted or self._follow_ups:
            self._await_commit()
        if self._sleeping_until > -inf and self._deadline() < self._sleeping_until:
            self._retimed.set()

    def _store(self, write: Write[R]) -> None:
        try:
            self._write(write)
        except KafkaError as error:
            self._shard.written(write, error.code, current_instant())
        else:
            deadline = trio.current_time() + self._progress.commit_seconds
            self._uncommitted.add(write, self._progress.end_offset, deadline)

    def _begin_follow_ups(self) -> None:
        if self.closed:
            return
        committed = self._progress.committed.offset
        for _ in range(FOLLOW_UPS_AT_ONCE):
            if not self._follow_ups or self._follow_ups[0][0] > committed:
                break
            self._begin(self._follow_ups.popleft()[1])
        if self._uncommitted or self._follow_ups:
            self._await_commit()

    def _awaited_offset(self) -> Offset | None:
        """Returns the next offset whose commit a write or follow-up waits for."""
        write = self._uncommitted[0].end_offset if self._uncommitted else None
        follow_up = self._follow_ups[0][0] if self._follow_ups else None
        if write is None or follow_up is None:
            return follow_up if write is None else write
        return min(write, follow_up)

    def _deadline(self) -> float:
        of_shard = self._shard.deadline()
        deadline = inf if of_shard is None else of_shard
        return min(deadline, self._uncommitted[0].deadline) if self._uncommitted else deadline

    async def keep_time(self) -> None:
        """Handles timeouts until closed or cancelled."""
        while not self.closed:
            self._sleeping_until = self._deadline()
            await self._retimed.wait(self._sleeping_until)
            self._sleeping_until = -inf
            if not self.closed:
                self._handle_timeout(current_instant())
                self.settle()

    def _handle_timeout(self, at: Instant) -> None:
        for write in self._uncommitted.pop_expired(at.now):
            self._shard.written(write, E.COORDINATOR_NOT_AVAILABLE, at)
        self._shard.handle_timeout(at)

    def _await_commit(self) -> None:
        """Arranges for `watch_commits` to continue at the next commit that a write or follow-up waits for."""
        awaited = self._awaited_offset()
        if awaited is not None and not self._awaits_commit:
            self._awaits_commit = True
            self._progress.committed.when_reached(awaited, self._committed)

    def _committed(self) -> None:
        self._awaits_commit = False
        self._commit_came.set()

    async def watch_commits(self) -> None:
        """Settles after each commit that a write or follow-up waits for, until the epoch ends."""
        while not self._progress.committed.closed:
            await self._commit_came.wait()
            # Requests that wait for the same commit are answered before its follow-ups begin.
            await yield_to_loop()
            self.settle()
