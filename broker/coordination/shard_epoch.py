"""One epoch of a shard, as a block: load, serve, close. The trio shell around a `CoordinatorShard`.

It serves when the whole log is loaded, until the leader epoch of its partition ends: before, requests get
COORDINATOR_LOAD_IN_PROGRESS, after, NOT_COORDINATOR. Two tasks: one sleeps until the earliest deadline, one awaits the
commit of what was written last; and one for each follow-up of what is committed. Requests that wait hold a
`PendingResponse`, never a task of the epoch.
Source: `CoordinatorRuntime.CoordinatorContext` of Kafka. Left out: lingering, as an append is one call and the flush is
shared anyhow.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum
from math import inf
from typing import Any, Generic, TypeVar

import trio

from trimaran.broker import events
from trimaran.broker.coordination.loader import load_shard
from trimaran.broker.coordination.ports import AppendInfo, CoordinatorPartition
from trimaran.broker.coordination.shard import CoordinatorShard, CoordinatorSpec, Producer, Write
from trimaran.broker.coordination.timers import Instant
from trimaran.broker.coordination.uncommitted import UncommittedWrites
from trimaran.broker.coordination.writing import PartitionWriter
from trimaran.broker.partitions.end_markers import append_end_marker
from trimaran.log.producers.marker import EndMarker
from trimaran.log.producers.state import ProducerState
from trimaran.node.replicated.pending import CommittedResponse
from trimaran.node.replicated.state_machine import Result
from trimaran.node.runtime.clock import now_ms
from trimaran.node.runtime.epoch import open_epoch
from trimaran.node.runtime.errors import NotLeaderError
from trimaran.node.runtime.latest import Latest
from trimaran.node.runtime.threads import run_blocking
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.transport.scheduling.events import AutoResetEvent, yield_to_loop
from trimaran.wire.transport.scheduling.slice_end import slice_end

log = logging.getLogger(__name__)

S = TypeVar("S", bound=CoordinatorShard[Any])
R = TypeVar("R")
T = TypeVar("T")

E = ErrorCode

# What need not be atomic is cut into batches of this many: tombstones have some hundred bytes each, and a batch 1 MiB.
BATCH_RECORDS_MAX = 1_000

# Begun between two checkpoints, each by a task: 2 ms of work. After a fail-over there may be tens of thousands.
FOLLOW_UPS_PER_TURN = 200


class ShardState(Enum):
    """Requests are served by an active shard only; while it loads they are told to come again."""

    LOADING = "loading"
    ACTIVE = "active"
    CLOSED = "closed"


def current_instant() -> Instant:
    return Instant(trio.current_time(), now_ms())


class ShardEpoch(Generic[S, R]):
    """What a coordinator may hold on to: it outlives its block, and then answers NOT_COORDINATOR."""

    def __init__(
        self, spec: CoordinatorSpec[S, R], partition_index: int, leader: CoordinatorPartition
    ) -> None:
        self.partition_index = partition_index
        self._spec = spec
        self._leader = leader
        self._writer = PartitionWriter(spec, leader)
        self._state = Latest(ShardState.LOADING)
        self._shard: S | None = None
        # What came while the shard loaded; as many as there are changes of metadata meanwhile.
        self._when_loaded: list[Callable[[S, Instant], object]] = []
        self._end_offset = 0
        self._uncommitted = UncommittedWrites[Write[R]]()
        # (end offset, name), the oldest first: what begins when that much is committed.
        self._follow_ups = deque[tuple[int, str]]()
        self._nursery: trio.Nursery | None = None
        self._retimed = AutoResetEvent()
        # -inf while the task of the timers is awake: it looks at the deadlines before it sleeps.
        self._sleeping_until = -inf
        self._commit_awaited = AutoResetEvent()

    def __repr__(self) -> str:
        return f"<shard of {self._name} epoch {self.leader_epoch} {self.state.value}>"

    @property
    def _name(self) -> str:
        return f"{self._spec.topic}-{self.partition_index}"

    @property
    def leader_epoch(self) -> int:
        return self._leader.epoch

    @property
    def state(self) -> ShardState:
        return self._state.value

    @property
    def producers(self) -> ProducerState:
        """Whose transactions are open in the log."""
        return self._leader.log.producers

    @property
    def log_end_offset(self) -> int:
        return self._leader.log.log_end_offset

    # -- life

    def again(self) -> ShardEpoch[S, R]:
        """A new one of the same leadership, which loads what the log has now."""
        return ShardEpoch(self._spec, self.partition_index, self._leader)

    async def run(self) -> None:
        """Loads and serves until `close`; a shard that fails takes no other with it."""
        try:
            async with open_epoch(self.close) as nursery:
                self._nursery = nursery
                await self._load()
                nursery.start_soon(self._keep_time)
                nursery.start_soon(self._watch_commits)
                await self._state.wait_for(lambda state: state is ShardState.CLOSED)
        except Exception:  # the shards of other partitions are none of its business  # noqa: BLE001 - it is logged, with its traceback
            events.COORDINATOR_FAILED.log(log, exc_info=True, shard=self)

    async def unload(self) -> None:
        """When it has run: lets go of its shard."""
        shard, self._shard = self._shard, None
        if shard is not None:
            await run_blocking(shard.unload)

    def close(self) -> None:
        """Ends the epoch at once: nothing is served any more, and who waits is told NOT_COORDINATOR."""
        if self.state is ShardState.CLOSED:
            return
        self._state.set(ShardState.CLOSED)
        if self._shard is not None:
            self._shard.close(current_instant())
            for token, response in self._shard.take().responses:
                token.complete(response)

    async def _load(self) -> None:
        """Serves from then on, if the epoch has not ended meanwhile."""
        shard, end_offset = await load_shard(
            self._spec, self._name, self._leader.log, lambda: self.state is ShardState.LOADING
        )
        if self.state is not ShardState.LOADING:
            return
        self._shard, self._end_offset = shard, end_offset
        self._state.set(ShardState.ACTIVE)
        self._begin_to_serve()

    async def wait_loaded(self) -> None:
        """Returns when it serves, or will not any more."""
        await self._state.wait_not(ShardState.LOADING)

    def _begin_to_serve(self) -> None:
        self.step(lambda shard, at: shard.loaded(at))
        waiting, self._when_loaded = self._when_loaded, []
        for act in waiting:
            self.step(act)

    # -- inputs

    def active(self) -> S:
        """The shard, for reading and for decisions that go into `submit`.

        Raises:
            KafkaError: COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR.
        """
        state = self._state.value
        if state is not ShardState.ACTIVE:
            is_loading = state is ShardState.LOADING
            raise KafkaError(E.COORDINATOR_LOAD_IN_PROGRESS if is_loading else E.NOT_COORDINATOR)
        assert self._shard is not None, "what serves is loaded"
        return self._shard

    @property
    def is_committed(self) -> bool:
        """Whether everything that the shard knows is."""
        high_watermark = self._leader.high_watermark
        return not high_watermark.closed and high_watermark.reached(self._end_offset)

    def step(self, act: Callable[[S, Instant], T]) -> T:
        """Gives the shard one input and carries out what comes of it.

        Raises:
            KafkaError: as `active`, and what `act` raises.
        """
        result = act(self.active(), current_instant())
        self._settle()
        return result

    def step_when_loaded(self, act: Callable[[S, Instant], object]) -> None:
        """As `step`, as soon as the shard is loaded; never, if its epoch has ended."""
        if self.state is ShardState.ACTIVE:
            self.step(act)
        elif self.state is ShardState.LOADING:
            self._when_loaded.append(act)

    def decide(
        self,
        act: Callable[[S, Instant], Result[R, T]],
        producer: Producer | None = None,
        *,
        is_awaited: bool = True,
    ) -> CommittedResponse[T]:
        """Gives the shard one input and writes what it has decided, with a `producer` in its transaction. What nobody
        waits for shares the flush of what comes next.

        Raises:
            KafkaError: as `submit`, and what `act` raises.
        """
        shard, at = self.active(), current_instant()
        return self._submit(shard, act(shard, at), producer, at.now, is_awaited=is_awaited)

    def submit(
        self, result: Result[R, T], producer: Producer | None = None
    ) -> CommittedResponse[T]:
        """Writes what was just decided; call it before anything else can change the state.

        A result without records was decided on state that may not be committed yet, so its response waits for that.

        Raises:
            KafkaError: it was not written, or (if not atomic) not all of it; with the code for clients.
        """
        return self._submit(self.active(), result, producer, trio.current_time())

    def _submit(
        self,
        shard: S,
        result: Result[R, T],
        producer: Producer | None,
        now: float,
        *,
        is_awaited: bool = True,
    ) -> CommittedResponse[T]:
        high_watermark = self._leader.high_watermark
        if high_watermark.closed:
            raise KafkaError(E.NOT_COORDINATOR)
        try:
            if result.records:
                self._append_all(
                    shard, result.records, producer, result.atomic, is_awaited=is_awaited
                )
            elif not high_watermark.reached(self._end_offset):
                self._leader.hasten()
            end_offset = self._end_offset
        finally:
            self._settle()
        return CommittedResponse(
            result.response, end_offset, high_watermark, self._commit_deadline(now)
        )

    def append(self, records: Sequence[R], producer: Producer | None = None) -> int:
        """Writes records as one batch and replays them; with a `producer` in its transaction. Returns the end offset.

        Raises:
            KafkaError: as `active` and as `PartitionWriter.append`; nothing was written.
        """
        end_offset = self._append(self.active(), records, producer)
        self._settle()
        return end_offset

    def complete_transaction(
        self, producer: Producer, marker: EndMarker, transaction_version: int
    ) -> AppendInfo:
        """Appends a transaction coordinator's marker and replays it.

        Raises:
            KafkaError: as `active` and as `append_end_marker`; nothing was written.
        """
        shard = self.active()
        info = append_end_marker(
            self._leader,
            marker,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            transaction_version=transaction_version,
            now_ms=now_ms(),
        )
        self._replay(
            lambda: shard.complete_transaction(producer, marker.is_commit), info.last_offset + 1
        )
        self._settle()
        return info

    # -- writing

    def _append(
        self,
        shard: S,
        records: Sequence[R],
        producer: Producer | None,
        *,
        is_awaited: bool = True,
    ) -> int:
        last_offset = self._writer.append(records, producer, is_awaited=is_awaited)
        base_offset = last_offset - len(records) + 1
        assert base_offset >= self._end_offset, (base_offset, self._end_offset)

        def replay() -> None:
            for offset, record in enumerate(records, base_offset):
                shard.replay(offset, record, producer)

        self._replay(replay, last_offset + 1)
        return self._end_offset

    def _append_all(
        self,
        shard: S,
        records: Sequence[R],
        producer: Producer | None,
        atomic: bool,
        *,
        is_awaited: bool = True,
    ) -> int:
        size = BATCH_RECORDS_MAX if not atomic and producer is None else max(1, len(records))
        for start in range(0, len(records), size):
            some = records[start : start + size]
            self._append(shard, some, producer, is_awaited=is_awaited)
        return self._end_offset

    def _replay(self, replay: Callable[[], None], end_offset: int) -> None:
        try:
            replay()
        except Exception:
            # State and log have parted: nothing is decided on this state any more.
            events.COORDINATOR_REPLAY_FAILED.log(log, exc_info=True, shard=self)
            self.close()
            raise
        self._end_offset = end_offset

    # -- effects

    def _settle(self) -> None:
        """Writes and responds until nothing more comes of it; what is committed at once is done at once."""
        if self.state is not ShardState.ACTIVE:
            return  # closed while a task was being woken
        shard = self.active()
        while True:
            effects = shard.take()
            for write in effects.writes:
                self._store(shard, write)
            for token, response in effects.responses:
                token.complete(response)
            self._follow_ups.extend((self._end_offset, name) for name in effects.follow_ups)
            committed = self._uncommitted.pop_committed(self._leader.high_watermark.offset)
            for write in committed:
                shard.written(write, E.NONE, current_instant())
            if not effects.writes and not committed:
                break
        if self._follow_ups and self._leader.high_watermark.reached(self._follow_ups[0][0]):
            # The answers of this slice of requests leave first.
            slice_end().then(self._begin_follow_ups)
        elif self._awaited_offset() is not None:
            self._commit_awaited.set()
        if self._deadline() < self._sleeping_until:
            self._retimed.set()

    def _begin_follow_ups(self) -> None:
        if self.state is not ShardState.ACTIVE:
            return
        follow_up, nursery = self._spec.follow_up, self._nursery
        committed = self._leader.high_watermark.offset
        for _ in range(FOLLOW_UPS_PER_TURN):
            if not self._follow_ups or self._follow_ups[0][0] > committed:
                break
            _, name = self._follow_ups.popleft()
            assert follow_up is not None
            assert nursery is not None
            nursery.start_soon(follow_up, self, name)
        if self._awaited_offset() is not None:
            self._commit_awaited.set()

    def _awaited_offset(self) -> int | None:
        """The next commit that something hangs on."""
        write = self._uncommitted.awaited_offset()
        follow_up = self._follow_ups[0][0] if self._follow_ups else None
        if write is None or follow_up is None:
            return follow_up if write is None else write
        return min(write, follow_up)

    def _store(self, shard: S, write: Write[R]) -> None:
        try:
            end_offset = self._append_all(shard, write.records, None, write.atomic)
        except KafkaError as error:
            shard.written(write, error.code, current_instant())
        else:
            self._uncommitted.add(write, end_offset, self._commit_deadline(trio.current_time()))

    def _commit_deadline(self, now: float) -> float:
        return now + self._spec.commit_timeout_ms / 1000

    # -- time and commits

    def _deadline(self) -> float:
        of_shard, of_writes = self.active().deadline(), self._uncommitted.deadline()
        return min(inf if of_shard is None else of_shard, inf if of_writes is None else of_writes)

    def _settle_timeouts(self) -> None:
        if self.state is ShardState.ACTIVE:
            self.step(self._handle_timeout)

    def _handle_timeout(self, shard: S, at: Instant) -> None:
        for write in self._uncommitted.pop_expired(at.now):
            shard.written(write, E.COORDINATOR_NOT_AVAILABLE, at)
        shard.handle_timeout(at)

    async def _keep_time(self) -> None:
        while self.state is ShardState.ACTIVE:
            self._sleeping_until = self._deadline()
            with trio.move_on_at(self._sleeping_until):
                await self._retimed.wait()
            self._sleeping_until = -inf
            self._settle_timeouts()

    async def _watch_commits(self) -> None:
        high_watermark = self._leader.high_watermark
        while True:
            await self._commit_awaited.wait()
            while (awaited := self._awaited_offset()) is not None:
                if not high_watermark.reached(awaited):
                    try:
                        await high_watermark.wait_reached(awaited)
                    except NotLeaderError:
                        return  # `close` follows and tells everybody
                # Who waits for the same commit is answered before what follows it is begun.
                await yield_to_loop()
                self._settle()
