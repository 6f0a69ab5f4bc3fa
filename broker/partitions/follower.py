"""One follower epoch of a partition: its fetch position, and the handling of the leader's responses.

Source: `AbstractFetcherThread` and `ReplicaFetcherThread` of Kafka, KIP-101, KIP-279, KIP-595 (diverging epoch in
Fetch). The order matters (reliability P9): truncation comes first, then the append, then the high watermark. Nothing is
reported to the leader before it is durable: a partition is `ready` to be fetched when its whole log is.
`trimaran.broker.replication.fetcher` does the I/O with the leader.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Generator, Iterator
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
    """The fetch position of a follower; everything below `offset` is on its disk. The epoch is -1 for an empty log."""

    offset: Offset
    last_fetched_epoch: LeaderEpoch
    log_start_offset: Offset


# The segments removed in one step: 10 ms, and one sync of the directory.
SEGMENTS_AT_ONCE = 100
# The size of an old-format message without key and value.
RECORD_BATCH_BYTES_MIN = 26
EMPTY_LOG = FetchPosition(Offset(0), NO_LEADER_EPOCH, Offset(0))


@contextmanager
def open_follower_epoch(replica: Replica, state: PartitionImage) -> Iterator[PartitionFollower]:
    """Follows in `state.leader_epoch` within a block: after its exit no response of that leader is applied.

    Raises:
        KafkaError: KAFKA_STORAGE_ERROR if the log cannot be opened; then no epoch has begun.
    """
    epoch = PartitionFollower(replica, state)
    try:
        yield epoch
    finally:
        epoch.end()


class PartitionFollower:
    """One follower epoch. `leader_id` leads `epoch`; `on_ready` is called when the whole log has become durable.
    `is_new` is True while the replica has no log.

    A replica without a directory gets one with its first records; until then it fetches like an empty log.
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
        """The log, opened or created on first use. Raises KafkaError KAFKA_STORAGE_ERROR."""
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
        """The end position of the log, durable or not."""
        if self.is_new:
            return EMPTY_LOG
        log = self.log
        return FetchPosition(log.log_end_offset, log.epochs.latest_epoch, log.log_start_offset)

    def append(self, records: memoryview) -> bool:
        """Appends the leader's records and starts their flush; batches that the log already has are skipped.

        Returns:
            Whether any batch was new.

        Raises:
            RemoteProtocolError, KafkaError: the bytes are not complete valid batches, or do not continue the log.
        """
        log = self.log
        end = log.log_end_offset
        records = _from_offset(records, end)
        if not records:
            return False
        try:
            self.replica.traffic.replication_bytes_in += len(records)
            log.append_as_follower(records, now_ms=self._services.now_ms(), leader_epoch=self.epoch)
        finally:  # part of the records may have been written
            self._services.commit.mark_dirty(log, self._flushed, len(records))
        return log.log_end_offset > end

    def drop_deleted(self, leader_log_start_offset: Offset) -> Generator[None, None, None]:
        """Deletes the local records if the leader has deleted all of them; called before an append, in steps like
        `cut_segments_above`. These records may have diverged from the leader's without any epoch to show it, and would
        block a batch that spans the leader's log start. The replica therefore stays out of the ISR until this is done
        (`may_join`).

        Unless all of them are known to be committed, their files are removed as well: if the broker crashed before the
        next checkpoint of the log start, the diverged records would reappear (P3). Their producer state is removed,
        too: otherwise the broker, once leader, would report batches as duplicates that were never in the leader's log
        (P5).
        """
        if not self.lies_below(leader_log_start_offset):
            return
        end = self.log.log_end_offset
        if self.drops_files(leader_log_start_offset):
            yield from self.cut_segments_above(self.log.log_start_offset)
            if not self.ended:
                self.start_at(end)
        else:
            self.log.delete_records_before(end)

    def lies_below(self, leader_log_start_offset: Offset) -> bool:
        """Whether the leader has deleted all local records: otherwise `drop_deleted` does nothing."""
        return not self.is_new and self.log.log_end_offset <= leader_log_start_offset

    def drops_files(self, leader_log_start_offset: Offset) -> bool:
        """Whether `drop_deleted` also removes the files."""
        is_below = self.lies_below(leader_log_start_offset)
        return is_below and self.replica.saved_watermark < self.log.log_end_offset

    def take_watermark(self, high_watermark: Offset, leader_log_start_offset: Offset) -> None:
        """Applies the leader's high watermark and log start, as far as this log reaches; called after append and
        truncation.

        A new leader may not know yet how much is committed: the local high watermark never moves backwards (P7).
        """
        if self.is_new:
            self.replica.saved_watermark = Offset(0)
            return
        replica, log = self.replica, self.log
        before = replica.saved_watermark
        watermark = max(before, high_watermark, log.log_start_offset)
        replica.saved_watermark = min(watermark, log.log_end_offset)
        if replica.saved_watermark != before:
            replica.watchers.watermark_moved()  # consumers may read from this replica (KIP-392)
        if log.log_start_offset < leader_log_start_offset <= replica.saved_watermark:
            log.delete_records_before(leader_log_start_offset)

    def truncate_diverging(self, leader_epoch: LeaderEpoch, leader_end_offset: Offset) -> None:
        """Truncates the log: in the leader's log, the last fetched epoch ends below our position; the next fetch checks
        again (KIP-279).
        """
        self.truncate_to(self.diverging_at(leader_epoch, leader_end_offset))

    def diverging_at(self, leader_epoch: LeaderEpoch, leader_end_offset: Offset) -> Offset:
        """Returns the offset at which `truncate_diverging` truncates."""
        log = self.log
        target = min(leader_end_offset, log.log_end_offset)
        if leader_epoch >= 0:
            own_epoch, own_end = log.end_offset_for_epoch(leader_epoch)
            if own_epoch >= 0:
                target = own_end
                if own_epoch == leader_epoch:
                    target = min(target, leader_end_offset)
        return target

    def cut_segments_above(self, offset: Offset) -> Generator[None, None, None]:
        """Removes the last segments of a long log in steps, until few are left for `truncate_to`. Between two steps the
        log is a shorter log with the same epochs.
        """
        while not self.ended:
            bases = self.log.segment_base_offsets
            if len(bases) - bisect_right(bases, offset) <= SEGMENTS_AT_ONCE:
                return
            self.truncate_to(bases[-SEGMENTS_AT_ONCE])
            yield

    def truncate_to(self, offset: Offset) -> None:
        """Removes records from `offset` on, and an epoch that began at the log's end and has no records."""
        self.log.truncate_to(offset)
        end = self.log.log_end_offset  # lower if a batch spans `offset`
        self.replica.saved_watermark = min(self.replica.saved_watermark, end)
        # The leader's log is authoritative.
        self.replica.known_end = min(self.replica.known_end, end)
        self._flush_truncated()

    def start_at(self, offset: Offset) -> None:
        """Discards the whole log and starts at `offset`, because the leader no longer has the next records."""
        self.log.truncate_fully_and_start_at(offset)
        self.replica.saved_watermark = offset
        self.replica.known_end = min(self.replica.known_end, offset)
        self._flush_truncated()

    def _flush_truncated(self) -> None:
        if not self.ready:
            self._services.commit.mark_dirty(self.log, self._flushed)

    def _flushed(self, _offset: Offset) -> None:
        """Reports that the log is ready; called by the group commit when more of the log is durable."""
        if not self.ended and self.on_ready is not None and self.ready:
            self.on_ready(self)

    def end(self) -> None:
        self.ended = True


def in_runs(records: memoryview, batches: int) -> Iterator[memoryview]:
    """Yields runs of this many complete batches; bytes that are not a batch are part of the last run and are refused
    with it.
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
    """Returns the records without leading batches that lie entirely below `offset`; the leader's first batch may span
    it.
    """
    while (batch := header_at(records, 0)) is not None:
        if batch.next_offset > offset or not is_plausible(batch):
            break
        records = records[batch.size :]
    return records
