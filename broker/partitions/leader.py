"""One leader epoch of one partition: appends, and the effects of followers' fetches, metadata and controller answers.

Source: the leader part of Kafka's `Partition`. `open_leader_epoch` is its block. The epoch owns no task (a task for
each of 50,000 partitions would cost more than all other work); therefore the block is a plain `with`, which `Partition`
holds open until metadata ends the epoch. State that several epochs share is in `Replica`. Transactions are
verified in `trimaran.broker.transactions`; the controller has the rules of reassignments.
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
from trimaran.broker.partitions.replica import Replica, why_incomplete
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
    """Leads in `state.leader_epoch` within a block: on exit, tasks that wait for its watermark get NotLeaderError.

    After the exit nothing is appended and no watermark moves in this epoch, even if other objects still refer to it.
    With `saved`, this process has led the same epoch before, with the same records in another directory.

    Raises:
        KafkaError: KAFKA_STORAGE_ERROR if the log cannot be opened; then no epoch has begun.
    """
    epoch = PartitionLeader(replica, state, saved)
    try:
        yield epoch
    finally:
        epoch.end()


class PartitionLeader:
    """One leader epoch. Request handlers may keep a reference after its end; calls then raise
    NOT_LEADER_OR_FOLLOWER.
    """

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
        self.rules = replica.settings.rules  # the current rules of the topic
        self._in_sync = InSyncReplicas(replica, state)
        self._must_reconsider = False  # set by changes during a pending ISR change
        self._watermarks = LeaderWatermarks(replica, self._in_sync)
        self.high_watermark = self._watermarks.high
        self.low_watermark = self._watermarks.low
        if saved is not None:
            self.start_offset = saved.start_offset
            self._submit(self._in_sync.resume(saved))
        self._in_sync.follow_assignment(state)
        self._flush_recovered_bytes()

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
        """The progress of all replicas except the leader."""
        return self._in_sync.followers

    @property
    def saved_state(self) -> SavedLeaderState:
        return SavedLeaderState(
            self.start_offset, self.isr, self._in_sync.change, self.log.log_end_offset
        )

    @property
    def knows_committed(self) -> bool:
        """False while records committed before this epoch may lie above the watermark, which must not be shown to
        clients (P7).

        A new leader learns what is committed from its followers' first fetches; after a crash it also needs its first
        flush.
        """
        return self.high_watermark.offset >= self.start_offset

    @property
    def committed_end(self) -> Offset:
        """The offset at which consumers stop."""
        return self.high_watermark.offset

    @property
    def ended(self) -> bool:
        return self.high_watermark.closed

    @property
    def is_under_min_isr(self) -> bool:
        """Whether the ISR has fewer members than min.insync.replicas."""
        return self._in_sync.is_under_min

    @property
    def satisfies_min_isr(self) -> bool:
        """Whether at least min.insync.replicas replicas keep everything below the watermark, counting those that may
        already be in the ISR.
        """
        return not self._in_sync.may_be_under_min

    @property
    def watermark_when_flushed(self) -> Offset:
        """The high watermark that will be reached when everything written here is on disk."""
        return self._watermarks.high_when_flushed

    def _flush_recovered_bytes(self) -> None:
        """Flushes bytes above the flushed offset: they may only be in the page cache, so the watermark must not include
        them yet.
        """
        if self._services.commit.durable_end(self.log) < self.log.log_end_offset:
            self._commit.mark_dirty(self.log, self._flushed)
        else:
            self._watermarks.advance_high()

    def _flushed(self, _offset: Offset) -> None:
        """Advances the watermark; called by the group commit when more of the log is durable."""
        if not self.high_watermark.closed:
            self._watermarks.advance_high()

    # -- appending

    def appended_before(self, views: Sequence[BatchView]) -> AppendInfo | None:
        """Returns the result of an earlier `append` of the same batches by their idempotent producer, without the time,
        or None. Raises KafkaError if the batches conflict with the producer's state.
        """
        for view in views:
            if view.producer_id >= 0 and (duplicate := self.log.producers.validate(view)):
                return AppendInfo(
                    duplicate.base_offset,
                    duplicate.last_offset,
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

        `records` may be modified (offset and epoch are stamped in place); it is not kept. The append is acknowledged
        for acks=all after `high_watermark.wait_reached(info.last_offset + 1)`. A caller that waits for an append that
        was not `is_awaited` must call `expedite`.

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
        """Notes that a request now waits for the commit of an append that was not awaited at first."""
        self._commit.expedite(self.log)

    @property
    def disk_is_behind(self) -> bool:
        """Whether the disk is behind, as in `Durability.is_behind`."""
        return self._services.commit.is_behind(self.log)

    async def wait_flushed(self, offset: Offset) -> None:
        """Waits as `GroupCommit.wait_flushed` does."""
        await self._commit.wait_flushed(self.log, offset)

    # -- followers

    def check_not_outrun(
        self, replica_id: BrokerId, offset: Offset, last_epoch: LeaderEpoch
    ) -> None:
        """Checks a follower's fetch at `offset`, after a last record of `last_epoch`. If an in-sync follower has more
        of this epoch than the leader, this replica has lost records or has sent damaged ones: it must not make other
        replicas truncate (P19).

        Raises KafkaError KAFKA_STORAGE_ERROR in that case; the replica is taken out of service soon.
        """
        replica, end = self.replica, self.log.log_end_offset
        if offset <= end or last_epoch != self.epoch or replica_id not in self.isr.isr:
            return
        replica.known_end = offset
        sent_from = max(self._in_sync.followers[replica_id].sent_from, self.log.log_start_offset)
        self._services.suspects.add(replica.topic_partition, sent_from, LOOK_BYTES_MAX)
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, why_incomplete(replica, end))

    def record_fetch(
        self,
        replica_id: BrokerId,
        offset: Offset,
        log_start_offset: Offset,
        broker_epoch: BrokerEpoch,
        clock: FetchClock,
    ) -> None:
        """Records that a follower has everything below `offset` on disk; may add it to the ISR.

        Raises:
            KafkaError: UNKNOWN_LEADER_EPOCH if the metadata does not list it as a replica yet; STALE_BROKER_EPOCH if
                its broker has registered again while this fetch waited.
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

    def records_sent(self, replica_id: BrokerId, offset: Offset, size: int) -> None:
        """Records that a follower is sent up to `size` bytes of records from `offset` on; if it gets the same records
        again and again, they may be damaged on this disk.
        """
        progress = self._in_sync.followers.get(replica_id)
        if progress is not None and progress.records_sent(offset):
            self._services.suspects.add(self.replica.topic_partition, offset, size)

    def delete_records_before(self, offset: Offset) -> Offset:
        """Advances the log start to `offset` (-1: the high watermark); returns the new start (KIP-107).

        All live replicas have followed when `low_watermark` has reached it.

        Raises:
            KafkaError: OFFSET_OUT_OF_RANGE above the high watermark; POLICY_VIOLATION for a compacted topic;
                NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR.
        """
        if self.ended:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        config = self.log.config
        if (
            config.compacts and not config.deletes
        ):  # with an empty cleanup.policy deletion is allowed
            raise KafkaError(ErrorCode.POLICY_VIOLATION, "a compacted topic keeps its records")
        watermark = self.high_watermark.offset
        offset = watermark if offset == -1 else offset
        if not 0 <= offset <= watermark:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        self.log.delete_records_before(offset)
        self._commit.flush_soon(self.log)  # the checkpoint of epochs also has the log start
        self.replica.watchers.notify_all()
        self._watermarks.advance_low()
        return offset

    # -- ISR

    def reconsider_followers(self) -> None:
        """Checks again which followers may join the ISR or hold back the watermark, after a change of the ISR or of
        registrations.

        Only caught-up followers are added here: the rest are checked at their next fetch.
        """
        in_sync = self._in_sync
        self._must_reconsider = in_sync.isr.proposed is not None
        for replica_id, progress in in_sync.followers.items():
            if replica_id not in in_sync.maximal and in_sync.about_to_join(replica_id, progress):
                self._maybe_expand(replica_id, progress)
        if not self.ended:
            self._watermarks.advance_high()
            self._watermarks.advance_low()

    def drop_lagging(self) -> None:
        """Requests that the controller drop members of the ISR that have not kept up."""
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
        """Applies the controller's answer to `change`, unless the metadata already has it."""
        if self._is_current(change) and leader_epoch == self.epoch:
            self._in_sync.committed(isr, partition_epoch)
            self.reconsider_followers()

    def isr_refused(self, change: IsrChange, code: int) -> bool:
        """Returns True if the same `change` should be sent again.

        A refused follower may have become eligible since, but a fetch session omits unchanged partitions, so its next
        fetch might not name this one. Therefore followers are checked again if anything changed while the request was
        pending.
        """
        if not self._is_current(change):
            return False
        if code in NOT_APPLIED:
            self._in_sync.not_applied()
            if self._must_reconsider:
                self.reconsider_followers()
            else:
                self._watermarks.advance_high()
            return False
        return code not in AWAIT_METADATA

    # -- metadata

    def settings_changed(self) -> None:
        """Applies the topic's new configuration; a lower min.insync.replicas may advance the watermark."""
        self.rules = self.replica.settings.rules
        if not self.ended:
            self._watermarks.advance_high()

    def update(self, state: PartitionImage) -> None:
        """Applies newer metadata of the same leader epoch: ISR and assignment."""
        assert state.leader_epoch == self.epoch
        self._in_sync.update(state)
        self.reconsider_followers()

    def end(self) -> None:
        """Closes the watermarks; only `open_leader_epoch` calls it."""
        self._watermarks.close()
