"""What the driver does before a read: finds segments, decides where data ends, freezes ranges for the executors.

A data log ends at its high watermark as `replication-offset-checkpoint` of its directory tells (S5 of our invariants:
never at a file's size), or, when asked, at the last whole batch. Ranges begin at batches; a task gets several small or
one large one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from log.batches.batch import BatchView, has_valid_crc
from log.disk.checkpoints import HIGH_WATERMARKS, LOG_START_OFFSETS, CheckpointDamaged, read_offsets
from log.disk.files import REAL_FILES, OpenFile
from log.inspection.reader import SegmentFile, list_segments, split_segment
from log.segments.scan import read_batch, scan_headers
from spark.kafka_log.options import LogOptions
from spark.origins.discovery import (
    METADATA_TOPIC,
    LogDirectoryFound,
    PartitionFound,
    find_log_directories,
    find_partitions,
)
from spark.origins.origin import DataUnreadable

TAIL_BYTES = 1 << 20  # the log's end is looked for from a place about so far before it
TASK_RANGES_MAX = 256  # ranges of one task: bounds what is lost by a retry


@dataclass(frozen=True, slots=True)
class LogRange:
    """Positions [start, end) of a segment, beginning at a batch, of which the offsets [start, end) are wanted.

    `inode` tells whether the file is still the one that was planned: compaction puts another in its place.
    """

    path: str
    inode: int
    start_position: int
    end_position: int
    start_offset: int
    end_offset: int
    topic: str
    partition: int
    node_id: int

    @property
    def size(self) -> int:
        return self.end_position - self.start_position


@dataclass(frozen=True, slots=True)
class Replica:
    """A partition's directory with its bounds; `high_watermark` None when its checkpoint does not
    know the partition.
    """

    found: PartitionFound
    segments: tuple[SegmentFile, ...]
    start_offset: int
    end_offset: int
    end_position: int  # in the last segment
    high_watermark: int | None

    @property
    def committed(self) -> int:
        """Where the committed records end that this directory holds."""
        known = self.start_offset if self.high_watermark is None else self.high_watermark
        return min(known, self.end_offset)


def examine(found: PartitionFound, high_watermark: int | None, start_offset: int) -> Replica:
    """Looks at a partition's directory. Raises OSError."""
    segments = tuple(list_segments(Path(found.path)))
    if not segments:
        return Replica(found, (), start_offset, start_offset, 0, high_watermark)
    end_offset, end_position = find_end(segments[-1])
    start = max(segments[0].base_offset, start_offset)
    return Replica(found, segments, start, max(start, end_offset), end_position, high_watermark)


def find_end(segment: SegmentFile) -> tuple[int, int]:
    """(next offset, position) behind the last whole batch; a last one with a wrong CRC is a torn write."""
    file = REAL_FILES.open(Path(segment.path), write=False)
    for start, _ in reversed(split_segment(segment, TAIL_BYTES)):
        batches: list[tuple[int, BatchView]] = []
        for located in scan_headers(REAL_FILES, file, start, segment.size):
            if batches and located[1].base_offset < batches[-1][1].next_offset:
                break  # a stale block of the disk
            batches.append(located)
        if batches and not _is_sound(file, *batches[-1]):
            batches.pop()
        if batches:
            position, last = batches[-1]
            return last.next_offset, position + last.size
    return segment.base_offset, 0


def _is_sound(file: OpenFile, position: int, header: BatchView) -> bool:
    batch = read_batch(REAL_FILES, file, position, header.size)
    return batch is not None and has_valid_crc(batch)


def examine_directory(directory: LogDirectoryFound, options: LogOptions) -> list[Replica]:
    """All wanted partitions of a log directory, with the bounds that its checkpoints tell."""
    path = Path(directory.path)
    try:
        marks = read_offsets(path / HIGH_WATERMARKS)  # before the segments: these only grow
        starts = read_offsets(path / LOG_START_OFFSETS)
    except CheckpointDamaged as error:
        raise DataUnreadable(str(error)) from None
    return [
        examine(p, marks.get((p.topic, p.partition)), starts.get((p.topic, p.partition), 0))
        for p in find_partitions(directory)
        if p.topic != METADATA_TOPIC and (p.topic, p.partition) in options.topics
    ]


def choose(replicas: Iterable[Replica], options: LogOptions) -> list[Replica]:
    """One replica a partition, the one that holds most (committed) records; or all of them, if asked."""
    if options.replicas == "all":
        return list(replicas)
    best: dict[tuple[str, int], Replica] = {}
    for replica in replicas:
        key = replica.found.topic, replica.found.partition
        if key not in best or _holds(replica, options) > _holds(best[key], options):
            best[key] = replica
    return [best[key] for key in sorted(best)]


def _holds(replica: Replica, options: LogOptions) -> tuple[int, int]:
    if options.end == "log_end":
        return replica.end_offset, replica.committed
    return replica.committed, replica.end_offset


def plan_log(options: LogOptions) -> list[tuple[LogRange, ...]]:
    """The tasks of a read: each a few ranges.

    Raises:
        DataUnreadable: no log directory there, or a log ends before its own high watermark.
    """
    directories = find_log_directories(options.paths)
    if not directories:
        raise DataUnreadable(f"no log directory (meta.properties) in {', '.join(options.paths)}")
    replicas = choose(
        [r for directory in directories for r in examine_directory(directory, options)], options
    )
    total = sum(segment.size for r in replicas for segment in r.segments)
    target = max(1, min(options.split_bytes, total // options.min_partitions))
    return pack((r for replica in replicas for r in _ranges(replica, options, target)), target)


def _ranges(replica: Replica, options: LogOptions, target_bytes: int) -> Iterator[LogRange]:
    topic, partition = replica.found.topic, replica.found.partition
    latest = replica.end_offset
    if options.end == "high_watermark":
        latest = replica.high_watermark or 0
        if latest > replica.end_offset:
            raise DataUnreadable(
                f"{replica.found.path} ends at offset {replica.end_offset}, before its high watermark {latest}: "
                "records are missing; option end=log_end reads what is there"
            )
    latest = max(latest, replica.start_offset)
    start = options.starting.resolve(topic, partition, replica.start_offset, latest)
    end = options.ending.resolve(topic, partition, replica.start_offset, latest)
    yield from split(
        replica.found, replica.segments, replica.end_position, start, end, target_bytes
    )


def split(
    found: PartitionFound,
    segments: Sequence[SegmentFile],
    end_position: int,
    start_offset: int,
    end_offset: int,
    target_bytes: int,
) -> Iterator[LogRange]:
    """Ranges of about `target_bytes` over the segments that may hold offsets of [start, end)."""
    next_bases = [segment.base_offset for segment in segments[1:]]
    for index, segment in enumerate(segments):
        is_last = index == len(segments) - 1
        if segment.base_offset >= end_offset or start_offset >= end_offset:
            return
        if not is_last and next_bases[index] <= start_offset:
            continue
        whole = SegmentFile(
            segment.path, segment.base_offset, end_position if is_last else segment.size
        )
        try:
            inode = Path(segment.path).stat().st_ino
            pieces = split_segment(whole, target_bytes)
        except FileNotFoundError:
            raise DataUnreadable(
                f"{segment.path} was deleted while it was read; read again"
            ) from None
        for start, end in pieces:
            yield LogRange(
                segment.path,
                inode,
                start,
                end,
                start_offset,
                end_offset,
                found.topic,
                found.partition,
                found.node_id,
            )


def pack(ranges: Iterable[LogRange], target_bytes: int) -> list[tuple[LogRange, ...]]:
    """Groups ranges, in order, into tasks of about `target_bytes`."""
    tasks: list[tuple[LogRange, ...]] = []
    task: list[LogRange] = []
    for piece in ranges:
        size = sum(r.size for r in task)
        if task and (size + piece.size > target_bytes or len(task) >= TASK_RANGES_MAX):
            tasks.append(tuple(task))
            task = []
        task.append(piece)
    if task:
        tasks.append(tuple(task))
    return tasks
