"""One leadership epoch of one partition: appends, followers' progress, ISR and high watermark.

Source: `Partition` of Kafka where it leads. `open_leader_epoch` is its block; it owns no task (one for each of 50,000
partitions would cost more than all else), so the block is a plain `with`, which `Partition` holds open until metadata
ends it. What several epochs share is in `Partition`.
Left out: transactions, reassignment's catch-up rules (the controller's), reading from followers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from broker.partitions.isr import (
    UNKNOWN_OFFSET,
    FetchClock,
    IsrState,
    ReplicaProgress,
    lagging,
    may_join,
    next_high_watermark,
)
from broker.partitions.isr_change import IsrChange
from log.batches.batch import BatchView
from log.partitions.partition_log import AppendInfo
from node.runtime.watermark import Watermark
from quorum.metadata.image import PartitionImage
from wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from broker.partitions.partition import Partition

ACKS_ALL = -1
# An unclean leader begins with what it has: nothing is left to recover when it first proposes an ISR (KIP-704).
RECOVERED = 0

# The controller said that nothing was changed and our epochs are right: the committed ISR stands.
_NOT_APPLIED = frozenset({ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA})
# We are behind the controller: newer metadata will come and settle it. The proposal stays pending (the watermark stays
# careful) until then.
_AWAIT_METADATA = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)


@contextmanager
def open_leader_epoch(
    partition: Partition, state: PartitionImage, now: float
) -> Iterator[LeaderEpoch]:
    """The leadership of `state.leader_epoch`: on exit whoever waits for its watermark hears NotLeaderError.

    After the exit nothing is appended and no watermark moves in the name of this epoch, whoever still holds it.

    Raises:
        KafkaError: KAFKA_STORAGE_ERROR, the log cannot be opened; then no epoch has begun.
    """
    epoch = LeaderEpoch(partition, state, now)
    try:
        yield epoch
    finally:
        epoch.end()


class LeaderEpoch:
    """What request handlers may hold on to: it outlives its epoch, and then answers NOT_LEADER_OR_FOLLOWER."""

    def __init__(self, partition: Partition, state: PartitionImage, now: float) -> None:
        self.partition = partition
        self.epoch = state.leader_epoch
        self.log = partition.log
        self.start_offset = self.log.log_end_offset
        self.high_watermark = Watermark(partition.watermark_in_log())
        self.isr = IsrState(state.isr, state.partition_epoch)
        self.low_watermark = Watermark(UNKNOWN_OFFSET)
        self._maximal = self.isr.maximal
        self._services = partition.services
        self.replicas: dict[int, ReplicaProgress] = {}
        self._follow_assignment(state, now)
        self._flush_what_recovery_left()

    def __str__(self) -> str:
        return (
            f"{self.partition.name} epoch {self.epoch} start {self.start_offset} hw {self.high_watermark.offset} "
            f"end {self.log.log_end_offset} isr {self.isr.isr} proposed {self.isr.proposed}"
        )

    @property
    def knows_committed(self) -> bool:
        """False while what was committed before this epoch may lie above the watermark, which must not be told (P7).

        A new leader learns it from its followers' first fetches, one that recovered from a crash also from its first flush.
        """
        return self.high_watermark.offset >= self.start_offset

    @property
    def ended(self) -> bool:
        return self.high_watermark.closed

    def _flush_what_recovery_left(self) -> None:
        """Bytes above the flushed offset may be in the page cache only; the watermark must not count them yet."""
        if self._services.commit.durable_end(self.log) < self.log.log_end_offset:
            self._services.commit.mark_dirty(self.log, self.partition.flushed)
        else:
            self._advance()

    def _follow_assignment(self, state: PartitionImage, now: float) -> None:
        node_id = self._services.node_id
        for replica_id in state.replicas:
            if replica_id != node_id and replica_id not in self.replicas:
                progress = ReplicaProgress()
                if replica_id in state.isr:
                    progress.caught_up_at = (
                        now  # a new leader gives its ISR the full time to show up
                    )
                self.replicas[replica_id] = progress
        for replica_id in self.replicas.keys() - set(state.replicas):
            del self.replicas[replica_id]

    # -- appending

    def produce(
        self, records: memoryview, views: Sequence[BatchView], acks: int
    ) -> tuple[AppendInfo, int]:
        """Appends a client's validated batches, or finds that its idempotent producer has sent them before.

        Returns:
            What to answer, and the offset that the high watermark must reach before acks=all may be answered.

        Raises:
            KafkaError: as `append`, and what the producer state objects to.
        """
        for view in views:
            if view.producer_id >= 0 and (duplicate := self.log.producers.validate(view)):
                info = AppendInfo(
                    duplicate.base_offset, duplicate.last_offset, -1, self.log.log_start_offset
                )
                return info, duplicate.last_offset + 1
        info = self.append(records, views, acks=acks)
        return info, info.last_offset + 1

    def append(
        self, records: memoryview, views: Sequence[BatchView], *, acks: int = ACKS_ALL
    ) -> AppendInfo:
        """Appends validated batches.

        `records` may be written to (offset and epoch are stamped in place); it is not kept.
        Acked for acks=all means: `high_watermark.wait_reached(info.last_offset + 1)`.

        Raises:
            KafkaError: NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS (nothing was written), RECORD_LIST_TOO_LARGE,
                KAFKA_STORAGE_ERROR.
        """
        if self.ended:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if acks == ACKS_ALL and self.is_under_min_isr:
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
        services = self._services
        info = self.log.append_as_leader(
            records, list(views), leader_epoch=self.epoch, now_ms=services.now_ms()
        )
        services.commit.mark_dirty(self.log, self.partition.flushed)
        self.partition.watchers.end_moved()
        return info

    def flushed(self) -> None:
        """The log is durable further than before."""
        if not self.ended:
            self._advance()

    @property
    def is_under_min_isr(self) -> bool:
        """Fewer are in sync than min.insync.replicas asks for."""
        return self._is_too_few(len(self.isr.isr))

    @property
    def keeps_enough(self) -> bool:
        """What is below the watermark is kept by as many as min.insync.replicas asks for, those counted that may be in the ISR already."""
        return not self._is_too_few(len(self._maximal))

    def _is_too_few(self, members: int) -> bool:
        """No more can be asked for than there are replicas."""
        count = len(self.replicas) + 1
        return members < count and members < min(count, self.partition.settings.min_insync_replicas)

    def _advance(self) -> None:
        if self.is_under_min_isr:
            # Or acks=all would be answered by too few; and who has left the ISR may still be elected, as it has all that is
            # committed: so nothing more is (KIP-966).
            return
        watermark = self.high_watermark
        offset = next_high_watermark(
            watermark.offset,
            self._services.commit.durable_end(self.log),
            self.replicas,
            self._maximal,
            self._about_to_join,
        )
        if offset > watermark.offset:
            watermark.advance(offset)
            self.partition.watchers.watermark_moved()

    # -- followers

    def record_fetch(
        self,
        replica_id: int,
        offset: int,
        log_start_offset: int,
        broker_epoch: int,
        clock: FetchClock,
    ) -> None:
        """Takes over that a follower has everything below `offset` on disk; may join it to the ISR.

        Raises:
            KafkaError: UNKNOWN_LEADER_EPOCH: no replica of this partition as far as we know, yet.
        """
        progress = self.replicas.get(replica_id)
        if progress is None:
            raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH)
        progress.record(
            offset,
            leader_end=self.log.log_end_offset,
            broker_epoch=broker_epoch,
            clock=clock,
            now=self._services.now(),
        )
        if log_start_offset != progress.log_start_offset:
            progress.log_start_offset = log_start_offset
            self._advance_low_watermark()
        if replica_id not in self._maximal:
            self._maybe_expand(replica_id, progress)
        self._advance()

    def delete_records_before(self, offset: int) -> int:
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
        self.partition.watchers.look_again()
        self._advance_low_watermark()
        return offset

    def _advance_low_watermark(self) -> None:
        """The least log start offset of the live replicas."""
        brokers = self._services.metadata.image.cluster.brokers
        start = self.log.log_start_offset
        for replica_id, progress in self.replicas.items():
            broker = brokers.get(replica_id)
            if broker is not None and not broker.fenced:
                start = min(start, progress.log_start_offset)
        if start > self.low_watermark.offset:
            self.low_watermark.advance(start)

    # -- ISR

    def reconsider_followers(self) -> None:
        """The ISR or registrations changed: some follower may now be allowed in, or not be waited for.

        Only one that is caught up: another tells with its next fetch how far it is.
        """
        for replica_id, progress in self.replicas.items():
            if replica_id not in self._maximal and self._about_to_join(replica_id, progress):
                self._maybe_expand(replica_id, progress)
        if not self.ended:
            self._advance()
            self._advance_low_watermark()

    def drop_lagging(self) -> None:
        """Asks the controller to drop members of the ISR that have not kept up."""
        lost = lagging(
            self.isr,
            self.replicas,
            leader_id=self._services.node_id,
            leader_end=self.log.log_end_offset,
            now=self._services.now(),
            lag_seconds_max=self._services.lag_seconds_max,
        )
        if lost:
            self._propose(tuple(member for member in self.isr.isr if member not in lost))

    def _about_to_join(self, replica_id: int, progress: ReplicaProgress) -> bool:
        return progress.caught_up(
            self.log.log_end_offset, self._services.now(), self._services.lag_seconds_max
        ) and self._eligible(replica_id, progress)

    def _maybe_expand(self, replica_id: int, progress: ReplicaProgress) -> None:
        if (
            self.isr.proposed is None
            and may_join(progress, self.high_watermark.offset, self.start_offset)
            and self._eligible(replica_id, progress)
        ):
            self._propose((*self.isr.isr, replica_id))

    def _eligible(self, replica_id: int, progress: ReplicaProgress) -> bool:
        """KIP-841, KIP-903, KIP-858: alive, staying, the same incarnation whose fetch we saw, its directory not failed since."""
        broker = self._services.metadata.image.cluster.brokers.get(replica_id)
        return (
            broker is not None
            and not broker.fenced
            and not broker.in_controlled_shutdown
            and broker.epoch == progress.broker_epoch
            and broker.has_online(self.partition.state.directory_of(replica_id))
        )

    def _propose(self, isr: tuple[int, ...]) -> None:
        change = IsrChange(
            topic_id=self.partition.topic_id,
            partition_index=self.partition.index,
            leader_epoch=self.epoch,
            partition_epoch=self.isr.partition_epoch,
            leader_recovery_state=RECOVERED,
            new_isr=tuple((member, self._broker_epoch(member)) for member in isr),
        )
        self._set_isr(replace(self.isr, proposed=isr))
        self._services.isr_changes.submit(self, change)

    def _broker_epoch(self, replica_id: int) -> int:
        if replica_id == self._services.node_id:
            return self._services.broker_epoch()
        return self.replicas[replica_id].broker_epoch if replica_id in self.replicas else -1

    def _set_isr(self, isr: IsrState) -> None:
        self.isr = isr
        self._maximal = isr.maximal

    def _is_current(self, change: IsrChange) -> bool:
        return (
            not self.ended
            and self.isr.proposed is not None
            and change.partition_epoch == self.isr.partition_epoch
            and tuple(member for member, _ in change.new_isr) == self.isr.proposed
        )

    def isr_committed(
        self, change: IsrChange, isr: tuple[int, ...], leader_epoch: int, partition_epoch: int
    ) -> None:
        """The controller has answered `change`; metadata may have been faster, then nothing is left to do."""
        if not self._is_current(change) or leader_epoch != self.epoch:
            return
        if partition_epoch >= self.isr.partition_epoch:
            self._set_isr(IsrState(isr, partition_epoch))
            self.reconsider_followers()

    def isr_refused(self, change: IsrChange, code: int) -> bool:
        """Returns True if `change` should be sent again as it is."""
        if not self._is_current(change):
            return False
        if code in _NOT_APPLIED:
            self._set_isr(replace(self.isr, proposed=None))
            self._advance()
            return False
        return code not in _AWAIT_METADATA

    # -- metadata

    def settings_changed(self) -> None:
        """The topic's configuration is another one: fewer may be asked for than before."""
        if not self.ended:
            self._advance()

    def update(self, state: PartitionImage) -> None:
        """Newer metadata of the same leader epoch: ISR, assignment."""
        assert state.leader_epoch == self.epoch
        self._follow_assignment(state, self._services.now())
        if state.partition_epoch > self.isr.partition_epoch:
            self._set_isr(IsrState(state.isr, state.partition_epoch))
        self.reconsider_followers()

    def end(self) -> None:
        """Only `open_leader_epoch` calls it."""
        self.high_watermark.close()
        self.low_watermark.close()
