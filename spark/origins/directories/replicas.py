"""Copies of a partition in directories: their bounds, and the choice of the authoritative one.

Bounds come from the files of a node, which need not be running: the high watermark from
`replication-offset-checkpoint`, the start of the log from its first segment and `log-start-offset-checkpoint`, its
latest epoch from `leader-epoch-checkpoint` (S5 of our invariants: data never ends at a file's size).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import starmap
from pathlib import Path
from typing import NamedTuple

from trimaran.log.batches.batch import BatchView, has_valid_crc
from trimaran.log.disk.checkpoints import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LEADER_EPOCHS,
    LOG_START_OFFSETS,
    CheckpointDamaged,
    read_offsets,
)
from trimaran.log.disk.files import Files, OpenFile
from trimaran.log.disk.leader_epochs import LeaderEpochs
from trimaran.log.inspection.reader import SegmentFile
from trimaran.log.inspection.segment_lookup import SegmentLookup
from trimaran.log.segments.recovery import base_offset_of
from trimaran.log.segments.scan import read_batch, scan_headers
from trimaran.log.segments.segment import CLEANED_SUFFIX, DELETED_SUFFIX, INDEX_SUFFIX, SWAP_SUFFIX
from trimaran.spark.origins.damage import next_sound
from trimaran.spark.origins.directories.discovery import (
    Listing,
    LogDirectoryFound,
    PartitionFound,
    list_partition,
    topic_id_of,
)
from trimaran.spark.origins.directories.file_range import LogFiles
from trimaran.spark.origins.origin import DataUnreadable
from trimaran.wire.identity import NO_LEADER_EPOCH, LeaderEpoch, Offset, TopicPartition

MAX_OFFSET = Offset((1 << 63) - 1)
COMPACTING = (CLEANED_SUFFIX, SWAP_SUFFIX, DELETED_SUFFIX)


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """The checkpoint files of a log directory. They are read before the segments, because segments only grow."""

    high_watermarks: Mapping[TopicPartition, Offset]
    starts: Mapping[TopicPartition, Offset]
    cleaned: Mapping[TopicPartition, Offset]

    @classmethod
    def read(cls, directory: LogDirectoryFound) -> Checkpoints:
        """Reads the files. Raises DataUnreadable."""
        path, files = Path(directory.path), directory.storage.files
        names = HIGH_WATERMARKS, LOG_START_OFFSETS, CLEANER_OFFSETS
        try:
            return cls(*(read_offsets(path / name, files) for name in names))
        except CheckpointDamaged as error:
            raise DataUnreadable(f"{error}; without the file nothing is known of it") from None


NO_CHECKPOINTS = Checkpoints({}, {}, {})


class SegmentPlace(NamedTuple):
    """A position in a segment."""

    path: str
    position: int


class EpochStart(NamedTuple):
    """A leader epoch, and its first offset here."""

    epoch: LeaderEpoch
    offset: Offset


@dataclass(frozen=True, slots=True)
class StoredReplica:
    """The directory of a partition with its bounds.

    Args:
        high_watermark: None if the checkpoint does not contain the partition.
        epoch: its latest leader epoch, -1 for none.
        lost_from: the first offset of the log if segments before `start_offset` vanished without retention.
    """

    log: LogFiles
    segments: tuple[SegmentFile, ...]
    start_offset: Offset
    end_offset: Offset
    end_position: int  # in the last segment
    high_watermark: Offset | None
    epoch: LeaderEpoch = NO_LEADER_EPOCH
    lost_from: Offset | None = None

    @property
    def found(self) -> PartitionFound:
        return self.log.found

    @property
    def key(self) -> TopicPartition:
        return self.found.key

    @property
    def is_empty(self) -> bool:
        return self.end_offset <= self.start_offset

    @property
    def committed(self) -> Offset:
        """Returns the end of the committed records in this directory."""
        known = self.start_offset if self.high_watermark is None else self.high_watermark
        return min(known, self.end_offset)


def examine(found: PartitionFound, checkpoints: Checkpoints) -> StoredReplica:
    """Examines the directory of a partition. Raises OSError or DataUnreadable."""
    key = found.key
    high_watermark, start = (
        checkpoints.high_watermarks.get(key),
        checkpoints.starts.get(key, Offset(0)),
    )
    epochs = _epochs(found)
    listing = list_partition(found)
    segments = listing.segments
    bases = tuple(segment.base_offset for segment in segments)
    cleaned_to = checkpoints.cleaned.get(key, Offset(0))
    dense_from = _dense_from(cleaned_to, listing)
    topic_id = topic_id_of(found)
    if not segments:
        log = LogFiles(found, (), dense_from, cleaned_to, topic_id=topic_id)
        begin = epochs[0].offset if epochs else Offset(0)
        lost = begin if (high_watermark or 0) > max(start, begin) else None
        start = max(start, high_watermark or Offset(0))
        return StoredReplica(
            log,
            (),
            start,
            start,
            0,
            high_watermark,
            _latest(epochs, NO_LEADER_EPOCH),
            lost,
        )
    end = _end_of(segments[-1], found)
    start_offset = max(segments[0].base_offset, start)
    log = LogFiles(found, bases, dense_from, cleaned_to, start_offset, topic_id)
    return StoredReplica(
        log,
        segments,
        start_offset,
        max(start_offset, end.offset),
        end.position,
        high_watermark,
        _latest(epochs, end.epoch),
        None if found.only else _lost_from(start, epochs, listing),
    )


def _end_of(segment: SegmentFile, found: PartitionFound) -> LogEnd:
    try:
        return find_end(segment, found.storage.files)
    except FileNotFoundError:
        raise DataUnreadable(f"{segment.path} was deleted during the query; run it again") from None


def _dense_from(cleaned: Offset, listing: Listing) -> Offset:
    """Returns the offset below which compaction may have left gaps; while compaction runs and has not recorded its
    progress, there may be gaps anywhere.
    """
    busy = any(name.endswith(COMPACTING) for name in listing.others)
    return MAX_OFFSET if busy else cleaned


def _lost_from(start: Offset, epochs: Sequence[EpochStart], listing: Listing) -> Offset | None:
    """Returns the offset from which segments are lost: retention raises the first epoch with the start of the log, so
    records between it and the segments were lost in another way.
    """
    first = listing.segments[0].base_offset
    orphans = [base_offset_of(name, INDEX_SUFFIX) for name in listing.others]
    begins: list[Offset] = [offset for offset in orphans if offset is not None]
    begins += [epoch.offset for epoch in epochs[:1]]
    begin = max(start, min(begins, default=first))
    return begin if begin < first and not listing.is_being_trimmed else None


def _latest(epochs: Sequence[EpochStart], of_last_batch: LeaderEpoch) -> LeaderEpoch:
    return max(of_last_batch, epochs[-1].epoch if epochs else NO_LEADER_EPOCH)


def _epochs(found: PartitionFound) -> list[EpochStart]:
    """Returns the epochs in ascending order; none if the file is missing, as in logs of old versions of Kafka."""
    path = Path(found.path) / LEADER_EPOCHS
    try:
        entries = LeaderEpochs.parse(path, found.storage.files.read_bytes(path)).entries()
        return list(starmap(EpochStart, entries))
    except (FileNotFoundError, CheckpointDamaged):
        return []


def choose(
    replicas: Iterable[StoredReplica], *, by_log_end: bool
) -> dict[TopicPartition, StoredReplica]:
    """Returns the authoritative replica of each partition: the replica with the latest epoch, since a longer one with
    an older epoch has records that a new leader truncated; among equal epochs the longest.
    """
    best: dict[TopicPartition, StoredReplica] = {}
    for replica in replicas:
        known = best.get(replica.key)
        if known is None or _standing(replica, by_log_end) > _standing(known, by_log_end):
            best[replica.key] = replica
    return best


def _standing(replica: StoredReplica, by_log_end: bool) -> tuple[int, ...]:
    held = replica.committed, replica.end_offset
    return (replica.epoch, *(reversed(held) if by_log_end else held))


# The search for the end of a log begins this many bytes before the end of its file, then four times as many, and so on.
TAIL_BYTES = 1 << 17


class LogEnd(NamedTuple):
    """The end of a log: `position` is in the last segment; `epoch` is that of the last batch, -1 without one."""

    offset: Offset
    position: int
    epoch: LeaderEpoch


def find_end(segment: SegmentFile, files: Files) -> LogEnd:
    """Finds the end of a log in its last segment. Raises OSError."""
    file = files.open(Path(segment.path), write=False)
    end = LogEnd(segment.base_offset, 0, NO_LEADER_EPOCH)
    lookup = SegmentLookup(segment, files)
    start, tail = segment.size, TAIL_BYTES
    while start:
        start, tail = lookup.before_position(segment.size - tail), tail * 4
        found = _last_sound(files, file, start, segment)
        if found is not None:
            end = found
            break
    while end.position < segment.size:
        # The remaining bytes are a torn write, unless an undamaged batch follows: then readers must find the damage.
        behind = next_sound(files, file, end.position, segment.size, end.offset)
        found = None if behind is None else _last_sound(files, file, behind, segment)
        if found is None:
            break
        end = found
    return end


def _last_sound(files: Files, file: OpenFile, start: int, segment: SegmentFile) -> LogEnd | None:
    """Returns the position after the last undamaged batch of a contiguous run from `start` on; None if there is
    none.
    """
    batches: list[tuple[int, BatchView]] = []
    for located in scan_headers(files, file, start, segment.size):
        if batches and located[1].base_offset < batches[-1][1].next_offset:
            break  # a stale block of the disk
        batches.append(located)
    while batches:
        position, header = batches.pop()
        batch = read_batch(files, file, position, header.size)
        if batch is not None and has_valid_crc(batch):
            return LogEnd(header.next_offset, position + header.size, header.leader_epoch)
    return None
