"""Carries out what comes of a shard's inputs: responses, writes of its own, follow-ups, deadlines.

Belongs to one epoch of a shard that serves. Two tasks: one sleeps until the earliest deadline, one awaits the commit of
the first write or follow-up that waits for it.
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

# Begun between two checkpoints, each by a task: 2 ms of work. After a fail-over there may be tens of thousands.
FOLLOW_UPS_PER_TURN = 200


def current_instant() -> Instant:
    """Returns the present moment, on the loop's clock and on the wall's."""
    return Instant(trio.current_time(), now_ms())


class _Uncommitted(NamedTuple, Generic[W]):
    write: W
    end_offset: Offset
    deadline: float


class UncommittedWrites(deque[_Uncommitted[W]]):
    """A shard's own writes that are in the log and not committed. In log order, so offsets and deadlines ascend; as
    many as a shard writes within one commit timeout.
    """

    def add(self, write: W, end_offset: Offset, deadline: float) -> None:
        """Adds a write that is in the log below `end_offset`; it expires at `deadline`, in monotonic seconds."""
        self.append(_Uncommitted(write, end_offset, deadline))

    def pop_committed(self, high_watermark: int) -> list[W]:
        """Removes and returns those that are committed, in order."""
        committed = []
        while self and self[0].end_offset <= high_watermark:
            committed.append(self.popleft().write)
        return committed

    def pop_expired(self, now: float) -> list[W]:
        """Removes and returns those that were not committed in time, in order."""
        expired = []
        while self and self[0].deadline <= now:
            expired.append(self.popleft().write)
        return expired


class EffectRunner(Generic[R]):
    """Call `settle` after each input.

    Args:
        write: appends and replays a write of the shard. Raises KafkaError: it was not written, or not all of it.
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
        # (end offset, name), the oldest first: what begins when that much is committed.
        self._follow_ups = deque[tuple[Offset, str]]()
        self._retimed = AutoResetEvent()
        # -inf while the task of the timers is awake: it looks at the deadlines before it sleeps.
        self._sleeping_until = -inf
        self._awaits_commit = False
        self._commit_came = AutoResetEvent()

    def close(self) -> None:
        """Ends the epoch: whatever the shard holds gets its last response."""
        self.closed = True
        self._shard.close(current_instant())
        for pending, response in self._shard.take().responses:
            pending.complete(response)

    def settle(self) -> None:
        """Writes and responds until nothing more comes of it; what is committed at once is done at once."""
        if self.closed:
            return  # while a task was being woken
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
            # The answers of this slice of requests leave first.
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
        for _ in range(FOLLOW_UPS_PER_TURN):
            if not self._follow_ups or self._follow_ups[0][0] > committed:
                break
            self._begin(self._follow_ups.popleft()[1])
        if self._uncommitted or self._follow_ups:
            self._await_commit()

    def _awaited_offset(self) -> Offset | None:
        """Returns the next commit that something waits for."""
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
        """Does what is due, until it is closed or cancelled."""
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
        """Has `watch_commits` go on when the next commit comes that something waits for."""
        awaited = self._awaited_offset()
        if awaited is not None and not self._awaits_commit:
            self._awaits_commit = True
            self._progress.committed.when_reached(awaited, self._committed)

    def _committed(self) -> None:
        self._awaits_commit = False
        self._commit_came.set()

    async def watch_commits(self) -> None:
        """Goes on when a commit comes that something waits for, until the epoch ends."""
        while not self._progress.committed.closed:
            await self._commit_came.wait()
            # Requests that wait for the same commit are answered before what follows it is begun.
            await yield_to_loop()
            self.settle()
