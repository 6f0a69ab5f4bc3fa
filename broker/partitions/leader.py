"""One leadership epoch of one partition: appends, and what followers, metadata and the controller tell its leader.

Source: `Partition` of Kafka where it leads. `open_leader_epoch` is its block; it owns no task (one for each of 50,000
partitions would cost more than all else), so the block is a plain `with`, which `Partition` holds open until metadata
ends it. State that several epochs share is in `Replica`.
Not implemented: transactions, reassignment's catch-up rules (the controller's).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from trimaran.broker.partitions.in_sync_replicas import InSyncReplicas
from trimaran.broker.partitions.isr import FetchClock, IsrState, ReplicaProgress
from trimaran.broker.partitions.isr_change import (
    AWAIT_METADATA,
    NOT_APPLIED,
    IsrChange,
    SavedLeaderState,
)
from trimaran.broker.partitions.leader_watermarks import LeaderWatermarks
from trimaran.broker.partitions.replica import Replica, why_a_part
from trimaran.broker.partitions.suspects import LOOK_BYTES_MAX
from trimaran.log.batches.batch import BatchView
from trimaran.log.partitions.partition_log import AppendInfo
from trimaran.quorum.metadata.image import PartitionImage
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import BrokerEpoch, BrokerId, LeaderEpoch, Offset, PartitionEpoch

ACKS_ALL = -1


@contextmanager
def open_leader_epoch(
    replica: Replica, state: PartitionImage, saved: SavedLeaderState | None = None
) -> Iterator[PartitionLeader]:
    """The leadership of `state.leader_epoch`: on exit whoever waits for its watermark hears NotLeaderError.

    After the exit nothing is appended and no watermark moves in the name of this epoch, though others may hold it.
    Given
    `saved`, this process has led the same epoch before, with the same records in another place.

    Raises:
        KafkaError: KAFKA_STORAGE_ERROR, the log cannot be opened; then no epoch has begun.
    """
    epoch = PartitionLeader(replica, state, saved)
    try:
        yield epoch
    finally:
        epoch.end()


class PartitionLeader:
    """The leader that request handlers may keep: it outlives its epoch, and then answers NOT_LEADER_OR_FOLLOWER."""

    def __init__(
        self, replica: Replica, state: PartitionImage, saved: SavedLeaderState | None
    ) -> None:
        self.replica = replica
        self.epoch = state.leader_epoch
        self.log = replica.log
        self.start_offset = self.log.log_end_offset
        self.log.begin_epoch(self.epoch)
        self._services = replica.services
        self._commit = self._services.commit.of(self.log)
        self.rules = replica.settings.rules  # of the topic, as they are now
        self._in_sync = InSyncReplicas(replica, state)
        self._look_again = False  # followers had news while a change of the ISR was under way
        self._watermarks = LeaderWatermarks(replica, self._in_sync)
        self.high_watermark = self._watermarks.high
        self.low_watermark = self._watermarks.low
        if saved is not None:
            self.start_offset = saved.start_offset
            self._submit(self._in_sync.resume(saved))
        self._in_sync.follow_assignment(state)
        self._flush_what_recovery_left()

    def __str__(self) -> str:
        return (
            f"{self.replica.name} epoch {self.epoch} start {self.start_offset} hw {self.high_watermark.offset} "
            f"end {self.log.log_end_offset} isr {self.isr.isr} proposed {self.isr.proposed}"
        )

    @property
    def isr(self) -> IsrState:
        return self._in_sync.isr

    @property
    def followers(self) -> Mapping[BrokerId, ReplicaProgress]:
        """All other replicas."""
        return self._in_sync.followers

    @property
    def saved_state(self) -> SavedLeaderState:
        return SavedLeaderState(
            self.start_offset, self.isr, self._in_sync.change, self.log.log_end_offset
        )

    @property
    def knows_committed(self) -> bool:
        """False while what was committed before this epoch may lie above the watermark, which must not be told (P7).

        A new leader learns it from its followers' first fetches, one that recovered from a crash also from its first
        flush.
        """
        return self.high_watermark.offset >= self.start_offset

    @property
    def committed_end(self) -> Offset:
        """Returns the offset at which consumers stop."""
        return self.high_watermark.offset

    @property
    def ended(self) -> bool:
        return self.high_watermark.closed

    @property
    def is_under_min_isr(self) -> bool:
        """Fewer are in sync than min.insync.replicas asks for."""
        return self._in_sync.is_under_min

    @property
    def satisfies_min_isr(self) -> bool:
        """Returns whether min.insync.replicas replicas keep all below the watermark, with those that may be in the
        ISR already.
        """
        return not self._in_sync.may_be_under_min

    @property
    def watermark_when_flushed(self) -> Offset:
        """Returns the high watermark as it will be when all that is written here is on disk."""
        return self._watermarks.high_when_flushed

    def _flush_what_recovery_left(self) -> None:
        """Bytes above the flushed offset may be in the page cache only; the watermark must not count them yet."""
        if self._services.commit.durable_end(self.log) < self.log.log_end_offset:
            self._commit.mark_dirty(self.log, self._flushed)
        else:
            self._watermarks.advance_high()

    def _flushed(self, _offset: int) -> None:
        """Group commit's word that the log is durable further than before."""
        if not self.high_watermark.closed:
            self._watermarks.advance_high()

    # -- appending

    def appended_before(self, views: Sequence[BatchView]) -> AppendInfo | None:
        """Returns what `append` returned for the same batches, if their idempotent producer has sent them before, less
        the time. Raises KafkaError: what the state of the producer objects to.
        """
        for view in views:
            if view.producer_id >= 0 and (duplicate := self.log.producers.validate(view)):
                return AppendInfo(
                    Offset(duplicate.base_offset),
                    Offset(duplicate.last_offset),
                    -1,
                    self.log.log_start_offset,
                )
        return None

    def append(
        self,
        records: memoryview,
        views: Sequence[BatchView],
        *,
        acks: int = ACKS_ALL,
        is_awaited: bool = True,
    ) -> AppendInfo:
        """Appends validated batches.

        `records` may be written to (offset and epoch are stamped in place); it is not kept.
        Acked for acks=all means: `high_watermark.wait_reached(info.last_offset + 1)`. A caller that waits for an
        append that was not `is_awaited` calls `expedite`.

        Raises:
            KafkaError: NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS (nothing was written), RECORD_LIST_TOO_LARGE,
                KAFKA_STORAGE_ERROR.
        """
        if self.high_watermark.closed:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if acks == ACKS_ALL and self._in_sync.is_under_min:
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
        if self.replica.known_end:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "records of this epoch are missing")
        now_ms = self._services.now_ms()
        info = self.log.append_as_leader(
            records, list(views), leader_epoch=self.epoch, now_ms=now_ms
        )
        self._commit.mark_dirty(self.log, self._flushed, len(records), is_awaited=is_awaited)
        self.replica.watchers.end_moved()
        return info

    def expedite(self) -> None:
        """Notes that a request waits for the commit of an append that was not awaited at first."""
        self._commit.expedite(self.log)

    @property
    def disk_is_behind(self) -> bool:
        """As `Durability.is_behind`."""
        return self._services.commit.is_behind(self.log)

    async def wait_flushed(self, offset: int) -> None:
        """As `GroupCommit.wait_flushed`."""
        await self._commit.wait_flushed(self.log, Offset(offset))

    # -- followers

    def check_not_outrun(self, replica_id: BrokerId, offset: Offset, last_epoch: int) -> None:
        """A follower fetches at `offset`, and its last record is of `last_epoch`. One in sync that has more of this
        epoch than is here proves that this replica has lost records, or has given it damaged ones: it must not have
        others cut theirs (P19).

        Raises KafkaError KAFKA_STORAGE_ERROR; the replica is taken out of service soon.
        """
        replica, end = self.replica, self.log.log_end_offset
        if offset <= end or last_epoch != self.epoch or replica_id not in self.isr.isr:
            return
        replica.known_end = offset
        given_from = max(self._in_sync.followers[replica_id].given_from, self.log.log_start_offset)
        self._services.suspects.add(replica.topic_partition, given_from, LOOK_BYTES_MAX)
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, why_a_part(replica, end))

    def record_fetch(
        self,
        replica_id: BrokerId,
        offset: Offset,
        log_start_offset: Offset,
        broker_epoch: BrokerEpoch,
        clock: FetchClock,
    ) -> None:
        """Takes over that a follower has everything below `offset` on disk; may join it to the ISR.

        Raises:
            KafkaError: UNKNOWN_LEADER_EPOCH: no replica of this partition as far as we know, yet; STALE_BROKER_EPOCH:
                it has come back as another incarnation while this fetch waited.
        """
        progress = self._in_sync.followers.get(replica_id)
        if progress is None:
            raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH)
        broker = self._services.metadata.image.cluster.brokers.get(replica_id)
        if broker is not None and broker_epoch < broker.epoch:
            raise KafkaError(ErrorCode.STALE_BROKER_EPOCH)
        progress.record(
            offset,
            leader_end=self.log.log_end_offset,
            broker_epoch=broker_epoch,
            clock=clock,
            now=self._services.now(),
        )
        if log_start_offset != progress.log_start_offset:
            progress.log_start_offset = log_start_offset
            self._watermarks.advance_low()
        if replica_id not in self._in_sync.maximal:
            self._maybe_expand(replica_id, progress)
        self._watermarks.advance_high()

    def given(self, replica_id: BrokerId, offset: Offset, size: int) -> None:
        """A follower is given up to `size` bytes of records from `offset` on; the same again and again, they may be
        damaged here.
        """
        progress = self._in_sync.followers.get(replica_id)
        if progress is not None and progress.given(offset):
            self._services.suspects.add(self.replica.topic_partition, offset, size)

    def delete_records_before(self, offset: Offset) -> Offset:
        """Moves the log's start up to `offset` (-1: the high watermark), which is returned (KIP-107).

        All live replicas have followed when `low_watermark` has reached it.

        Raises:
            KafkaError: OFFSET_OUT_OF_RANGE, above the high watermark; POLICY_VIOLATION, a compacted topic;
                NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR.
        """
        if self.ended:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        config = self.log.config
        if config.compacts and not config.deletes:  # of an empty cleanup.policy they may go
            raise KafkaError(ErrorCode.POLICY_VIOLATION, "a compacted topic keeps its records")
        watermark = self.high_watermark.offset
        offset = watermark if offset == -1 else offset
        if not 0 <= offset <= watermark:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        self.log.delete_records_before(offset)
        self._commit.flush_soon(self.log)  # the epochs say where the log starts, too
        self.replica.watchers.notify_all()
        self._watermarks.advance_low()
        return offset

    # -- ISR

    def reconsider_followers(self) -> None:
        """The ISR or registrations changed: some follower may now be allowed in, or not be waited for.

        Only one that is caught up: another tells with its next fetch how far it is.
        """
        in_sync = self._in_sync
        self._look_again = in_sync.isr.proposed is not None
        for replica_id, progress in in_sync.followers.items():
            if replica_id not in in_sync.maximal and in_sync.about_to_join(replica_id, progress):
                self._maybe_expand(replica_id, progress)
        if not self.ended:
            self._watermarks.advance_high()
            self._watermarks.advance_low()

    def drop_lagging(self) -> None:
        """Asks the controller to drop members of the ISR that have not kept up."""
        self._submit(self._in_sync.shrink())

    def _maybe_expand(self, replica_id: BrokerId, progress: ReplicaProgress) -> None:
        watermark = self.high_watermark.offset
        self._submit(self._in_sync.expand(replica_id, progress, watermark, self.start_offset))

    def _submit(self, change: IsrChange | None) -> None:
        if change is not None:
            self._services.isr_changes.submit(self, change)

    def _is_current(self, change: IsrChange) -> bool:
        return not self.ended and change == self._in_sync.change

    def isr_committed(
        self,
        change: IsrChange,
        isr: tuple[BrokerId, ...],
        leader_epoch: LeaderEpoch,
        partition_epoch: PartitionEpoch,
    ) -> None:
        """The controller has answered `change`; metadata may have been faster, then nothing is left to do."""
        if not self._is_current(change) or leader_epoch != self.epoch:
            return
        if self._in_sync.committed(isr, partition_epoch):
            self.reconsider_followers()

    def isr_refused(self, change: IsrChange, code: int) -> bool:
        """Returns True if `change` should be sent again as it is.

        A follower that the controller refused may be eligible since, and sends no news: a fetch session leaves out
        partitions without change. If nothing has changed since, there will be news.
        """
        if not self._is_current(change):
            return False
        if code in NOT_APPLIED:
            self._in_sync.not_applied()
            if self._look_again:
                self.reconsider_followers()
            else:
                self._watermarks.advance_high()
            return False
        return code not in AWAIT_METADATA

    # -- metadata

    def settings_changed(self) -> None:
        """The topic's configuration is another one: fewer may be asked for than before."""
        self.rules = self.replica.settings.rules
        if not self.ended:
            self._watermarks.advance_high()

    def update(self, state: PartitionImage) -> None:
        """Newer metadata of the same leader epoch: ISR, assignment."""
        assert state.leader_epoch == self.epoch
        self._in_sync.update(state)
        self.reconsider_followers()

    def end(self) -> None:
        """Only `open_leader_epoch` calls it."""
        self._watermarks.close()
