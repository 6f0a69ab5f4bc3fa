"""One reign over one partition of `__consumer_offsets`: the trio shell around `ShardCore`.

It loads the log, then serves until its epoch ends (invariant G5): before, requests get COORDINATOR_LOAD_IN_PROGRESS,
after, NOT_COORDINATOR. Two tasks: one sleeps until the earliest deadline of all groups, one awaits the commit of what
was written last. Requests that wait hold a `Parking` or a `Deferred`, never a task of the shard.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from math import inf
from typing import Generic, TypeVar

import trio

from broker.coordination.errors import response_code
from broker.coordination.timers import Instant
from broker.groups.limits import GroupLimits
from broker.groups.loader import StoreLoader
from broker.groups.ports import OFFSETS_TOPIC, KnowsTopic, OffsetsPartition
from broker.groups.records import GroupRecord, group_record
from broker.groups.shard_core import ShardCore
from broker.groups.store import GroupStore
from broker.groups.turn import GroupWrite
from log.batches.batch import iter_batches
from log.batches.records import build_batch
from log.segments.slices import LogSlice
from node.runtime.clock import now_ms
from node.runtime.deferred import Deferred, ReplicatedState, Result
from node.runtime.epoch import open_epoch
from node.runtime.errors import NotLeaderError
from node.runtime.latest import Latest
from node.runtime.steps import Steps
from node.runtime.threads import run_blocking
from wire.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)

T = TypeVar("T")

# Kafka's default `message.max.bytes`: a larger batch could not be replicated by a follower with default settings.
BATCH_BYTES_MAX = 1_048_588
# Tombstones of one deletion or expiry are cut into batches of this many: some hundred bytes each, well below the above.
BATCH_RECORDS_MAX = 1_000


class Parking(Generic[T]):
    """A response that comes when a group's members have done their part."""

    __slots__ = ("_come", "response")

    def __init__(self) -> None:
        self.response: T | None = None
        self._come: trio.Event | None = None

    def resolve(self, response: T) -> None:
        """Gives the response; only the first counts."""
        if self.response is None:
            self.response = response
            if self._come is not None:
                self._come.set()

    def ready(self) -> bool:
        return self.response is not None

    async def wait(self) -> T:
        if self.response is None:
            self._come = trio.Event()
            await self._come.wait()
        assert self.response is not None
        return self.response


class ShardState(Enum):
    LOADING = "loading"
    ACTIVE = "active"
    CLOSED = "closed"


def current_instant() -> Instant:
    return Instant(trio.current_time(), now_ms())


class GroupShard:
    """The coordinator of the groups of one partition in one leader epoch."""

    def __init__(
        self,
        partition_index: int,
        leader: OffsetsPartition,
        limits: GroupLimits,
        storage_failed: Callable[[], object],
        knows_topic: KnowsTopic,
    ) -> None:
        self.partition_index = partition_index
        self._state = Latest(ShardState.LOADING)
        self._leader = leader
        self._limits = limits
        self._storage_failed = storage_failed
        self._knows_topic = knows_topic
        self._core = ShardCore(GroupStore(), limits, knows_topic)
        # By name and id, in order: topics deleted while the shard is loaded; at most those that there are then.
        self._deleted_meanwhile: list[dict[str, bytes]] = []
        self._log_state: ReplicatedState[GroupRecord] | None = None
        self._retimed = trio.Event()
        self._sleeping_until = inf
        self._commit_awaited = trio.Event()

    def __repr__(self) -> str:
        return f"<groups of {OFFSETS_TOPIC}-{self.partition_index} epoch {self._leader.epoch} {self.state.value}>"

    @property
    def epoch(self) -> int:
        return self._leader.epoch

    # -- life

    @property
    def state(self) -> ShardState:
        return self._state.value

    async def reign(self) -> None:
        """Loads and serves until `close`; a shard that fails takes no other with it."""
        try:
            async with open_epoch(self.close) as nursery:
                nursery.start_soon(self._serve)
                await self._state.wait_for(lambda state: state is ShardState.CLOSED)
        except Exception:  # one partition's groups are isolated from those of the others
            log.exception("%r has failed, and stays closed until another epoch begins", self)

    def close(self) -> None:
        """Ends the reign at once: nothing is served any more, and who waits is told NOT_COORDINATOR."""
        if self.state is ShardState.CLOSED:
            return
        self._state.set(ShardState.CLOSED)
        self._core.close(current_instant())
        for token, response in self._core.take().answers:
            token.resolve(response)

    async def _serve(self) -> None:
        core, gone, end_offset = await self._load()
        if self.state is not ShardState.LOADING:
            return  # the epoch ended while a thread was reading
        self._core = core
        self._log_state = ReplicatedState(
            self._append, core.replay, self._leader.high_watermark, end_offset
        )
        self._state.set(ShardState.ACTIVE)
        self.step(core.restore)
        self._store_tombstones(gone)
        for topic_ids in self._deleted_meanwhile:
            self.forget_topics(topic_ids)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._keep_time)
            nursery.start_soon(self._watch_commits)

    async def _load(self) -> tuple[ShardCore, list[GroupRecord], int]:
        """Reads the whole log in a thread, piece by piece: nobody else appends to it, so its end stays.

        Where a piece lies is looked up on the loop, which moves the log's files when they are compacted.

        Returns:
            What was loaded, tombstones of the offsets in it whose topics are gone, and the log's end.
        """
        loader, source = StoreLoader(), self._leader.log
        offset, end_offset = source.log_start_offset, source.log_end_offset
        began = trio.current_time()

        def take(piece: LogSlice) -> int | None:
            with source.storage(f"loading {OFFSETS_TOPIC}-{self.partition_index}"):
                data = piece.read()
            return loader.feed(data)

        def finish() -> tuple[ShardCore, list[GroupRecord]]:
            core = ShardCore(loader.finish(), self._limits, self._knows_topic)
            return core, core.offsets_of_gone_topics()

        while offset < end_offset and self.state is ShardState.LOADING:
            buffer_bytes = self._limits.load_buffer_bytes
            piece = source.read(offset, buffer_bytes, upto_offset=end_offset, min_one=True)
            next_offset = None if piece is None else await run_blocking(take, piece)
            if next_offset is None:
                break
            offset = next_offset
        core, gone = await run_blocking(finish)
        if loader.record_count:
            seconds = trio.current_time() - began
            log.info("%r: %d records in %.3f s", self, loader.record_count, seconds)
        return core, gone, end_offset

    # -- inputs

    def active(self) -> ShardCore:
        """The core, for reading and for decisions that go into `submit`.

        Raises:
            KafkaError: COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR.
        """
        if self.state is ShardState.LOADING:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        if self.state is not ShardState.ACTIVE:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        return self._core

    def step(self, act: Callable[[Instant], T]) -> T:
        """Gives the core one input and carries out what comes of it."""
        result = act(current_instant())
        self._settle()
        return result

    def submit(self, result: Result[GroupRecord, T]) -> Deferred[T]:
        """Writes what was decided.

        Raises:
            KafkaError: it was not written, or (if not atomic) not all of it; with the code for clients.
        """
        assert self._log_state is not None
        records: Sequence[GroupRecord] = result.records
        try:
            if not result.atomic:
                while len(records) > BATCH_RECORDS_MAX:
                    self._log_state.submit(Result(records[:BATCH_RECORDS_MAX], None))
                    records = records[BATCH_RECORDS_MAX:]
            deferred = self._log_state.submit(Result(records, result.response))
        except NotLeaderError:
            raise KafkaError(ErrorCode.NOT_COORDINATOR) from None
        except KafkaError as error:
            raise KafkaError(response_code(error.code), error.message) from error
        self._settle()
        return deferred

    def forget_topics(self, topic_ids: dict[str, bytes]) -> None:
        """Writes tombstones for the offsets of deleted topics, as soon as the shard is loaded."""
        if self.state is ShardState.ACTIVE:
            self._store_tombstones(self._core.topics_deleted(topic_ids))
        elif self.state is ShardState.LOADING:
            self._deleted_meanwhile.append(topic_ids)

    # -- outputs

    def _settle(self) -> None:
        """Writes and answers until nothing more comes of it; what is committed at once is done at once."""
        core = self._core
        while True:
            out = core.take()
            for write in out.writes:
                self._store(write)
            if out.tombstones:
                self._store_tombstones(out.tombstones)
            for token, response in out.answers:
                token.resolve(response)
            awaited = core.awaited_commit()
            if awaited is not None and self._leader.high_watermark.reached(awaited):
                core.committed(self._leader.high_watermark.offset, current_instant())
            elif not (out.writes or out.tombstones or out.answers):
                break
        if core.awaited_commit() is not None:
            self._commit_awaited.set()
        deadline = core.deadline()
        if deadline is not None and deadline < self._sleeping_until:
            self._retimed.set()

    def _store(self, write: GroupWrite) -> None:
        assert self._log_state is not None
        record = group_record(write.group_id, write.value)
        at = current_instant()
        try:
            deferred = self._log_state.submit(Result((record,), None))
        except NotLeaderError:
            self._core.write_failed(write, ErrorCode.NOT_COORDINATOR, at)
        except KafkaError as error:
            self._core.write_failed(write, response_code(error.code), at)
        else:
            self._core.write_appended(write, deferred.end_offset, at)

    def _store_tombstones(self, tombstones: list[GroupRecord]) -> None:
        assert self._log_state is not None
        try:
            for start in range(0, len(tombstones), BATCH_RECORDS_MAX):
                batch = tombstones[start : start + BATCH_RECORDS_MAX]
                self._log_state.submit(Result(batch, None))
        except (NotLeaderError, KafkaError) as error:
            log.warning("%r: expired offsets stay until the next time: %s", self, error)

    def _append(self, records: Sequence[GroupRecord], _atomic: bool) -> Steps[int]:
        now = now_ms()
        batch = bytearray(build_batch(record.encode(now) for record in records))
        yield len(records)
        if len(batch) > BATCH_BYTES_MAX:
            raise KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE)
        view = memoryview(batch)
        try:
            return self._leader.append(view, list(iter_batches(view))).last_offset
        except KafkaError as error:
            if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
                self._storage_failed()
            raise

    # -- tasks

    async def _keep_time(self) -> None:
        while True:
            self._retimed = trio.Event()
            deadline = self._core.deadline()
            self._sleeping_until = inf if deadline is None else deadline
            with trio.move_on_at(self._sleeping_until):
                await self._retimed.wait()
            self._sleeping_until = inf
            self.step(self._core.handle_timeout)

    async def _watch_commits(self) -> None:
        watermark = self._leader.high_watermark
        while True:
            await self._commit_awaited.wait()
            self._commit_awaited = trio.Event()
            while (awaited := self._core.awaited_commit()) is not None:
                try:
                    await watermark.wait_reached(awaited)
                except NotLeaderError:
                    return  # `close` follows and answers everybody
                self.step(partial(self._core.committed, watermark.offset))
