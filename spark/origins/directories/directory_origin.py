"""The origin for node directories: bounds from the files of the nodes, and ranges of segments for executors."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from trimaran.log.batches.batch import BatchView
from trimaran.log.batches.columns import decode_columns
from trimaran.log.inspection.reader import SegmentFile, scan_batches, segment_boundaries
from trimaran.log.inspection.segment_lookup import SegmentLookup
from trimaran.log.old_formats.old_batches import as_v2
from trimaran.log.producers.snapshots import parse_snapshot
from trimaran.log.segments.recovery import base_offset_of
from trimaran.log.segments.segment import SNAPSHOT_SUFFIX
from trimaran.spark.origins.damage import lose, unreadable
from trimaran.spark.origins.directories.discovery import (
    METADATA_TOPIC,
    LogDirectoryFound,
    StorageOptions,
    find_log_directories,
    find_partitions,
)
from trimaran.spark.origins.directories.file_range import FileRange
from trimaran.spark.origins.directories.replicas import (
    NO_CHECKPOINTS,
    Checkpoints,
    StoredReplica,
    choose,
    examine,
)
from trimaran.spark.origins.directories.transaction_outcomes import UndecidedTransactions
from trimaran.spark.origins.origin import Bounds, DataUnreadable, Part
from trimaran.spark.origins.packing import pack, share_of
from trimaran.wire.identity import NodeId, Offset, Position, ProducerId, TopicPartition

OFFSET_BYTES_MAX = 256 << 20  # bytes of a batch that is decompressed to find an offset in it


@dataclass(frozen=True, slots=True)
class DirectorySettings:
    """The settings for reading directories.

    Args:
        end: high_watermark; log_end, which includes uncommitted records; or cleaner_offset, up to which any of the
            replicas to read may have been compacted.
        replicas: leader, or all, with one row for each copy.
        committed: data ends at the last stable offset.
        fail_on_data_loss: data that is known to be missing raises; otherwise it causes a warning.
    """

    paths: tuple[str, ...]
    storage_options: StorageOptions = ()
    end: str = "high_watermark"
    replicas: str = "leader"
    committed: bool = False
    fail_on_data_loss: bool = True


class DirectoryOrigin:
    """Node directories at one moment: each object finds them once, and opens them when a method needs them."""

    def __init__(
        self, settings: DirectorySettings, is_wanted: Callable[[TopicPartition], bool]
    ) -> None:
        """Raises DataUnreadable if there is no node directory, OptionError if there are two clusters or the path is
        unreadable.
        """
        self._settings = settings
        fail = settings.fail_on_data_loss
        directories = find_log_directories(settings.paths, settings.storage_options, fail=fail)
        if not directories:
            raise DataUnreadable(
                f"no log directory (meta.properties), partition TOPIC-N or segment in {', '.join(settings.paths)}"
            )
        self._all: set[TopicPartition] = set()
        self._replicas: dict[TopicPartition, list[StoredReplica]] = defaultdict(list)
        for directory in directories:
            self._open(directory, is_wanted)
        self._leave_out_old_topics()
        self._chosen = choose(
            (r for replicas in self._replicas.values() for r in replicas),
            by_log_end=settings.end == "log_end",
        )

    def _open(
        self, directory: LogDirectoryFound, is_wanted: Callable[[TopicPartition], bool]
    ) -> None:
        fail = self._settings.fail_on_data_loss
        checkpoints: Checkpoints | None = None
        try:
            partitions = find_partitions(directory)
        except OSError as error:
            lose(unreadable(error, directory.storage.url(directory.path)), fail=fail)
            return
        for found in partitions:
            if found.key.topic == METADATA_TOPIC:
                continue
            try:
                if is_wanted(found.key):
                    checkpoints = checkpoints or _checkpoints(directory, fail)
                    replica = examine(found, checkpoints)
                    self._replicas[found.key].append(replica)
                self._all.add(found.key)
            except OSError as error:
                lose(unreadable(error, found.url), fail=fail)

    def _leave_out_old_topics(self) -> None:
        """Leaves out directories of topics that were deleted and created again while their node was down: if
        directories have several ids, the topic has the id that most nodes have. Raises DataUnreadable if data loss
        fails.
        """
        found: dict[str, set[tuple[NodeId, str]]] = defaultdict(set)
        for key, replicas in self._replicas.items():
            known = ((r.found.node_id, r.log.topic_id) for r in replicas if r.log.topic_id)
            found[key.topic].update(known)
        for key, replicas in sorted(self._replicas.items()):
            counts = Counter(topic_id for _, topic_id in sorted(found[key.topic]))
            [(right, _)] = counts.most_common(1) or [("", 0)]
            for replica in [r for r in replicas if r.log.topic_id not in ("", right)]:
                lose(
                    f"{replica.found.url}: its topic has the id {replica.log.topic_id}, other directories of "
                    f"{key.topic} have {right}: the topic was deleted and created again while a node was down; leave "
                    "the directory of that node out of the paths",
                    fail=self._settings.fail_on_data_loss,
                )
                replicas.remove(replica)
            if not replicas:
                del self._replicas[key]
                self._all.discard(key)

    def partitions(self) -> Sequence[TopicPartition]:
        return sorted(self._all)

    def bounds(self, wanted: Sequence[TopicPartition]) -> Mapping[TopicPartition, Bounds]:
        return {key: self._bounds(key) for key in wanted}

    def _bounds(self, key: TopicPartition) -> Bounds:
        copies = self.copies(key)
        each = [self._bounds_of(replica) for replica in copies]
        log_end = max(replica.end_offset for replica in copies)
        return Bounds(min(b.start for b in each), max(b.end for b in each), log_end)

    def copies(self, key: TopicPartition) -> Sequence[StoredReplica]:
        """Returns the replicas to read."""
        return self._replicas[key] if self._settings.replicas == "all" else [self._chosen[key]]

    def _bounds_of(self, replica: StoredReplica) -> Bounds:
        fail = self._settings.fail_on_data_loss
        if replica.lost_from is not None:
            lose(
                f"{replica.found.url}: offsets {replica.lost_from} to {replica.start_offset - 1} are missing at its "
                "beginning, and retention did not take them",
                fail=fail,
            )
        end = self._end(replica, fail)
        if self._settings.committed and end > replica.start_offset:
            end = last_stable(replica, end)
        return Bounds(replica.start_offset, max(end, replica.start_offset))

    def _end(self, replica: StoredReplica, fail: bool) -> Offset:
        if self._settings.end == "cleaner_offset":
            return min(
                max(copy.log.dense_from for copy in self.copies(replica.key)), replica.end_offset
            )
        if self._settings.end == "log_end" or (replica.is_empty and not replica.high_watermark):
            return replica.end_offset
        mark = self._high_watermark(replica)
        if mark is None:
            lose(
                f"{replica.found.url}: it is not known which of the offsets {replica.start_offset} to "
                f"{replica.end_offset - 1} are committed, replication-offset-checkpoint beside it does not name the "
                "partition (nodes write it every few seconds and when they stop); option end=log_end reads all",
                fail=fail,
            )
            return replica.start_offset
        if mark > replica.end_offset and not replica.found.only:
            lose(
                f"{replica.found.url} ends at offset {replica.end_offset}, before its high watermark {mark}: records "
                "are missing; option end=log_end reads what is there",
                fail=fail,
            )
        return min(mark, replica.end_offset)

    def _high_watermark(self, replica: StoredReplica) -> Offset | None:
        """Returns the high watermark: the largest one of the replicas with the same epoch, since followers receive it
        later.
        """
        if self._settings.replicas == "all":
            return replica.high_watermark
        marks = [
            other.high_watermark
            for other in self._replicas[replica.key]
            if other.epoch == replica.epoch and other.high_watermark is not None
        ]
        return max(marks, default=None)

    def topic_ids(self) -> Mapping[str, str]:
        chosen = sorted(self._chosen.items())
        return {key.topic: found.log.topic_id for key, found in chosen if found.log.topic_id}

    def offsets_at(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, Offset | None]:
        return {
            key: offset_at(self._chosen[key], timestamp_ms, self._bounds(key))
            for key, timestamp_ms in timestamps.items()
        }

    def tasks(
        self,
        parts: Mapping[TopicPartition, Sequence[Part]],
        split_bytes: int | None,
        tasks_min: int,
    ) -> list[tuple[FileRange, ...]]:
        wanted = list(self._located(parts))
        total = sum(place.size for place in wanted)
        share = share_of(total, os.cpu_count() or 1) if split_bytes is None else split_bytes
        target = max(1, min(share, total // tasks_min))
        return pack((piece for place in wanted for piece in self._pieces(place, target)), target)

    def _pieces(self, whole: FileRange, target_bytes: int) -> Iterator[FileRange]:
        try:
            yield from pieces(whole, target_bytes)
        except OSError as error:
            lose(unreadable(error, whole.path), fail=self._settings.fail_on_data_loss)

    def _located(self, parts: Mapping[TopicPartition, Sequence[Part]]) -> Iterator[FileRange]:
        for key, wanted in parts.items():
            for replica in self.copies(key):
                for part in wanted:
                    own = part
                    if self._settings.replicas == "all":
                        bounds = self._bounds_of(replica)
                        own = part._replace(
                            start=max(part.start, bounds.start), end=min(part.end, bounds.end)
                        )
                    try:
                        yield from located(replica, own)
                    except OSError as error:
                        why = unreadable(error, replica.found.url)
                        lose(why, fail=self._settings.fail_on_data_loss)

    def summary(self, tasks: Sequence[tuple[FileRange, ...]]) -> str:
        there = [copy for key in self._replicas for copy in self.copies(key)]
        segments = sum(len(replica.segments) for replica in there)
        stored = sum(segment.size for replica in there for segment in replica.segments)
        ranges = [piece for task in tasks for piece in task]
        paths = {(piece.log.found.path, piece.base_offset) for piece in ranges}
        topics = len({piece.key.topic for piece in ranges})
        return (
            f"topics {topics} of {len({key.topic for key in self._all})}, "
            f"segments {len(paths)} of {segments}, "
            f"{mebibytes(sum(piece.size for piece in ranges))} of {mebibytes(stored)} MiB"
        )


def _checkpoints(directory: LogDirectoryFound, fail: bool) -> Checkpoints:
    try:
        return Checkpoints.read(directory)
    except DataUnreadable as error:
        lose(str(error), fail=fail)
        return NO_CHECKPOINTS


def mebibytes(count: int) -> str:
    return f"{count / (1 << 20):,.1f}"


def split(
    replica: StoredReplica, start_offset: Offset, end_offset: Offset, target_bytes: int
) -> Iterator[FileRange]:
    """Returns ranges of about `target_bytes` over the segments that may contain offsets of [start, end).

    Raises:
        DataUnreadable: a segment was deleted meanwhile.
    """
    for whole in located(replica, Part(start_offset, end_offset)):
        yield from pieces(whole, target_bytes)


def located(replica: StoredReplica, part: Part) -> Iterator[FileRange]:
    """Returns a range for each segment that may contain wanted records, as short as its indexes allow.

    Raises:
        DataUnreadable: a segment was deleted meanwhile.
    """
    segments = replica.segments
    for index, segment in enumerate(segments):
        is_tail = index == len(segments) - 1
        if segment.base_offset >= part.end or part.start >= part.end:
            return
        following = replica.end_offset if is_tail else segments[index + 1].base_offset
        if not is_tail and following <= part.start:
            continue
        size = replica.end_position if is_tail else segment.size
        whole = SegmentFile(segment.path, segment.base_offset, size)
        try:
            yield from _within(replica, whole, part, following)
        except FileNotFoundError:
            raise DataUnreadable(
                f"{segment.path} was deleted during the query; run it again"
            ) from None


def _within(
    replica: StoredReplica, segment: SegmentFile, part: Part, following: Offset
) -> Iterator[FileRange]:
    """Yields the range of a segment, unless all records of its wanted offsets are too early."""
    lookup = SegmentLookup(segment, replica.found.storage.files)
    start = lookup.at_offset(part.start)
    end = lookup.end_of(part.end) if part.end < following else Position(segment.size)
    if part.min_ms is not None and segment.size:
        in_time = lookup.at_time(part.min_ms)
        if in_time >= end:
            return
        start = max(start, in_time)
    first = lookup.start_of(start) if start else None
    if end <= start or (start and first is None):
        # Damage, which readers report.
        start, end, first = Position(0), Position(segment.size), None
    yield FileRange(replica.log, segment.base_offset, start, end, part, first, end == segment.size)


def pieces(whole: FileRange, target_bytes: int) -> Iterator[FileRange]:
    """Returns ranges of about `target_bytes`, and of about equal size: a small remainder would become a separate task.

    Raises:
        DataUnreadable: the segment was deleted meanwhile.
    """
    if whole.size <= target_bytes:
        yield whole
        return
    segment = SegmentFile(whole.path, whole.base_offset, whole.end_position)
    each = -(-whole.size // -(-whole.size // target_bytes))
    try:
        found = segment_boundaries(segment, each, whole.files, whole.start_position)
    except FileNotFoundError:
        raise DataUnreadable(f"{whole.path} was deleted during the query; run it again") from None
    for index, first in enumerate(found):
        if index and first.base_offset >= whole.end_offset:
            return
        is_end = index == len(found) - 1
        yield replace(
            whole,
            start_position=first.position,
            end_position=whole.end_position if is_end else found[index + 1].position,
            first=first,
            is_last=whole.is_last and is_end,
        )
    if not found:
        yield whole  # the segment is damaged from its start on: readers report it


# --- the last stable offset and times ---


def last_stable(replica: StoredReplica, high_watermark: Offset) -> Offset:
    """Returns the first offset of the transactions that are open at the high watermark, or the high watermark if there
    are none.

    The newest undamaged producer snapshot below it has the transactions that were open there; the log has the rest.
    """
    files = replica.found.storage.files
    start, begun = _snapshot_below(replica, high_watermark)
    open_ones = UndecidedTransactions(begun)
    for index, segment in enumerate(replica.segments):
        is_tail = index == len(replica.segments) - 1
        if not is_tail and replica.segments[index + 1].base_offset <= start:
            continue
        end = replica.end_position if is_tail else segment.size
        begin = SegmentLookup(segment, files).at_offset(start)
        for _, batch in scan_batches(segment.path, begin, end, files=files, check_crc=False):
            if batch.base_offset >= high_watermark:
                return open_ones.last_stable(high_watermark)
            if batch.base_offset >= start:
                open_ones.add(batch)
    return open_ones.last_stable(high_watermark)


def _snapshot_below(
    replica: StoredReplica, offset: Offset
) -> tuple[Offset, list[tuple[ProducerId, Offset]]]:
    """Returns the offset of the snapshot and its open transactions; the beginning of the log if no snapshot is
    undamaged.
    """
    found = replica.found
    names = [entry.name for entry in found.storage.entries(found.path)]
    standing = [
        base for name in names if (base := base_offset_of(name, SNAPSHOT_SUFFIX)) is not None
    ]
    for base in sorted((b for b in standing if b <= offset), reverse=True):
        path = Path(found.path) / f"{base:020d}{SNAPSHOT_SUFFIX}"
        try:
            state = parse_snapshot(found.storage.files.read_bytes(path), base)
        except (OSError, ValueError):
            continue
        begun = [(producer, e.transaction_start) for producer, e in state.entries()]
        return base, [(producer, start) for producer, start in begun if start >= 0]
    return Offset(0), []


def offset_at(replica: StoredReplica, timestamp_ms: int, bounds: Bounds) -> Offset | None:
    """Returns the first offset in the bounds whose record has that timestamp or a later one; control records count, as
    for brokers.
    """
    return offset_among(batches_from(replica, bounds.start, timestamp_ms), timestamp_ms, bounds)


def batches_from(replica: StoredReplica, offset: Offset, timestamp_ms: int) -> Iterator[BatchView]:
    """Yields the batches that may have records of the time or later, from the one with the offset on."""
    files = replica.found.storage.files
    for index, segment in enumerate(replica.segments):
        is_tail = index == len(replica.segments) - 1
        if not is_tail and replica.segments[index + 1].base_offset <= offset:
            continue
        end = replica.end_position if is_tail else segment.size
        lookup = SegmentLookup(SegmentFile(segment.path, segment.base_offset, end), files)
        start = max(lookup.at_offset(offset), lookup.at_time(timestamp_ms))
        for _, batch in scan_batches(segment.path, start, end, files=files, check_crc=False):
            yield batch


def offset_among(batches: Iterable[BatchView], timestamp_ms: int, bounds: Bounds) -> Offset | None:
    """Returns the result of `offset_at` for batches in order."""
    for batch in batches:
        if batch.base_offset >= bounds.end:
            return None
        if batch.max_timestamp < timestamp_ms or batch.next_offset <= bounds.start:
            continue
        offset = _offset_in(batch, timestamp_ms, bounds)
        if offset is not None:
            return Offset(offset)
    return None


def _offset_in(batch: BatchView, timestamp_ms: int, bounds: Bounds) -> Offset | None:
    if not batch.count:
        return None
    columns = decode_columns([as_v2(batch)], OFFSET_BYTES_MAX)
    for offset, time in zip(columns.offset, columns.timestamp_ms, strict=True):
        if time >= timestamp_ms and bounds.start <= offset < bounds.end:
            return Offset(offset)
    return None
