"""One epoch in which a partition follows: its fetch position, and the use of the leader's response.

Source: `AbstractFetcherThread` and `ReplicaFetcherThread` of Kafka, KIP-101, KIP-279, KIP-595 (diverging epoch in
Fetch). Order matters (reliability P9): truncation first, then append, then the high watermark. Nothing is reported to
the leader before it is durable: a partition is `ready` to be fetched when all of its log is. I/O with the leader is
`trimaran.broker.replication.fetcher`'s.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from trimaran.broker.partitions.replica import Replica
from trimaran.log.batches.batch import header_at
from trimaran.log.partitions.partition_log import PartitionLog
from trimaran.log.segments.scan import is_plausible
from trimaran.quorum.metadata.image import PartitionImage
from trimaran.wire.identity import NO_LEADER_EPOCH, LeaderEpoch, Offset


@dataclass(frozen=True, slots=True)
class FetchPosition:
    """The fetch position of a follower; everything below `offset` is durable here. The epoch is -1 for an empty log."""

    offset: Offset
    last_fetched_epoch: LeaderEpoch
    log_start_offset: Offset


# Segments that one step takes away: 10 ms, and a sync of the directory.
SEGMENTS_AT_ONCE = 100
# An old message without key and value.
RECORD_BATCH_BYTES_MIN = 26
EMPTY_LOG = FetchPosition(Offset(0), NO_LEADER_EPOCH, Offset(0))


@contextmanager
def open_follower_epoch(replica: Replica, state: PartitionImage) -> Iterator[PartitionFollower]:
    """Following in `state.leader_epoch`, as a block: after its exit no answer of that leader is taken over.

    Raises:
        KafkaError: KAFKA_STORAGE_ERROR, the log cannot be opened; then no epoch has begun.
    """
    epoch = PartitionFollower(replica, state)
    try:
        yield epoch
    finally:
        epoch.end()


class PartitionFollower:
    """`leader_id` leads `epoch`; `on_ready` is called when the log has become durable to its end. `is_new`: the replica
    has no log yet.

    A replica that has no directory yet gets one with its first records: until then it is followed as the empty log that
    it is.
    """

    __slots__ = ("_services", "ended", "epoch", "is_new", "leader_id", "on_ready", "replica")

    def __init__(self, replica: Replica, state: PartitionImage) -> None:
        self.replica = replica
        self.epoch = state.leader_epoch
        self.leader_id = state.leader
        self.ended = False
        self.on_ready: Callable[[PartitionFollower], None] | None = None
        self._services = replica.services
        self.is_new = replica.is_new
        if not self.ready:
            self._services.commit.mark_dirty(self.log, self._flushed)

    @property
    def log(self) -> PartitionLog:
        """Opened or made when first asked for; raises KafkaError KAFKA_STORAGE_ERROR."""
        log = self.replica.log
        self.is_new = False
        return log

    @property
    def ready(self) -> bool:
        if self.is_new:
            return True
        log = self.log
        return self._services.commit.durable_end(log) >= log.log_end_offset

    def position(self) -> FetchPosition:
        """Returns the position of the next fetch; only while `ready`."""
        assert self.ready
        return self.reached

    @property
    def reached(self) -> FetchPosition:
        """As `position`, durable or not."""
        if self.is_new:
            return EMPTY_LOG
        log = self.log
        return FetchPosition(log.log_end_offset, log.epochs.latest_epoch, log.log_start_offset)

    def append(self, records: memoryview) -> bool:
        """Writes what the leader sent and starts its flush; batches that are here already are left out.

        Returns:
            Whether there was anything else.

        Raises:
            RemoteProtocolError, KafkaError: the bytes are not whole valid batches, or do not continue the log.
        """
        log = self.log
        end = log.log_end_offset
        records = _from_offset(records, end)
        if not records:
            return False
        try:
            self.replica.traffic.replication_bytes_in += len(records)
            log.append_as_follower(records, now_ms=self._services.now_ms(), leader_epoch=self.epoch)
        finally:  # a part of them may be there
            self._services.commit.mark_dirty(log, self._flushed, len(records))
        return log.log_end_offset > end

    def drop_deleted(self, leader_log_start_offset: Offset) -> Iterator[None]:
        """Before append, in steps as `cut_segments_above`: deletes the records here if the leader has deleted all of
        them. They may be of another history, which no epoch tells any more, and then be in the way of a batch that
        reaches over the leader's start. So the replica stays out of the ISR until this is done (`may_join`).

        Unless all of them are known to be committed, their files go as well: if the broker crashed before the next
        checkpoint of the start, another history would be here again (P3). So do their producers: as leader the broker
        would answer that a batch is here that never was in the leader's log (P5).
        """
        if self.is_new or (end := self.log.log_end_offset) > leader_log_start_offset:
            return
        if self.begins_anew(leader_log_start_offset):
            yield from self.cut_segments_above(Offset(0))
            if not self.ended:
                self.start_at(end)
        else:
            self.log.delete_records_before(end)

    def lies_below(self, leader_log_start_offset: Offset) -> bool:
        """Whether the leader has deleted all that is here: else `drop_deleted` does nothing."""
        return not self.is_new and self.log.log_end_offset <= leader_log_start_offset

    def begins_anew(self, leader_log_start_offset: Offset) -> bool:
        """Whether `drop_deleted` takes the files away, too."""
        if self.is_new:
            return False
        return self.replica.saved_watermark < self.log.log_end_offset <= leader_log_start_offset

    def take_watermark(self, high_watermark: int, leader_log_start_offset: Offset) -> None:
        """After append and truncation: follows the leader's high watermark and log start, as far as the log goes.

        A new leader may know less of what is committed: then what is known here stands (P7).
        """
        if self.is_new:
            self.replica.saved_watermark = Offset(0)
            return
        replica, log = self.replica, self.log
        before = replica.saved_watermark
        watermark = max(before, high_watermark, log.log_start_offset)
        replica.saved_watermark = Offset(min(watermark, log.log_end_offset))
        if replica.saved_watermark != before:
            replica.watchers.watermark_moved()  # consumers read here (KIP-392)
        if log.log_start_offset < leader_log_start_offset <= replica.saved_watermark:
            log.delete_records_before(leader_log_start_offset)

    def truncate_diverging(self, leader_epoch: LeaderEpoch, leader_end_offset: Offset) -> None:
        """The leader's log of the epoch we read last ends below our position: cut back, and ask again (KIP-279)."""
        self.truncate_to(self.diverging_at(leader_epoch, leader_end_offset))

    def diverging_at(self, leader_epoch: LeaderEpoch, leader_end_offset: Offset) -> Offset:
        """Returns the offset at which `truncate_diverging` cuts."""
        log = self.log
        target = min(leader_end_offset, log.log_end_offset)
        if leader_epoch >= 0:
            own_epoch, own_end = log.end_offset_for_epoch(leader_epoch)
            if own_epoch >= 0:
                target = own_end
                if own_epoch == leader_epoch:
                    target = min(target, leader_end_offset)
        return target

    def cut_segments_above(self, offset: Offset) -> Iterator[None]:
        """Takes the last segments of a long log away, some at each step: few are left for `truncate_to`. Between
        two steps the log is a shorter one of the same epochs.
        """
        while not self.ended:
            bases = self.log.segment_base_offsets
            if len(bases) - bisect_right(bases, offset) <= SEGMENTS_AT_ONCE:
                return
            self.truncate_to(Offset(bases[-SEGMENTS_AT_ONCE]))
            yield

    def truncate_to(self, offset: Offset) -> None:
        """Cuts records, and an epoch that was begun here at the log's end without one."""
        self.log.truncate_to(offset)
        end = self.log.log_end_offset  # lower where a batch reaches over `offset`
        self.replica.saved_watermark = min(self.replica.saved_watermark, end)
        self.replica.known_end = min(self.replica.known_end, end)  # the leader's word counts more
        self._flush_truncated()

    def start_at(self, offset: Offset) -> None:
        """Throws away the whole log: the leader no longer has what comes next."""
        self.log.truncate_fully_and_start_at(offset)
        self.replica.saved_watermark = offset
        self.replica.known_end = min(self.replica.known_end, offset)
        self._flush_truncated()

    def _flush_truncated(self) -> None:
        if not self.ready:
            self._services.commit.mark_dirty(self.log, self._flushed)

    def _flushed(self, _offset: int) -> None:
        """Group commit's word that the log is durable further than before."""
        if not self.ended and self.on_ready is not None and self.ready:
            self.on_ready(self)

    def end(self) -> None:
        self.ended = True


def in_runs(records: memoryview, batches: int) -> Iterator[memoryview]:
    """Returns the bytes of this many whole batches in sequence; bytes that are no batch go with the last ones, and
    are refused with them.
    """
    while len(records) > batches * RECORD_BATCH_BYTES_MIN:
        end = 0
        for _ in range(batches):
            batch = header_at(records, end)
            if batch is None or not is_plausible(batch) or batch.size >= len(records) - end:
                break
            end += batch.size
        else:
            yield records[:end]
            records = records[end:]
            continue
        break
    yield records


def _from_offset(records: memoryview, offset: Offset) -> memoryview:
    """Drops leading batches that lie wholly below `offset`: a leader may begin with the batch that holds it."""
    while (batch := header_at(records, 0)) is not None:
        if batch.next_offset > offset or not is_plausible(batch):
            break
        records = records[batch.size :]
    return records
