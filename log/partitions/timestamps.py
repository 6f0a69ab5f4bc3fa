"""Finding offsets by timestamp: the time index narrows it to a place, headers to a batch, records to an offset.

Source: Kafka's `UnifiedLog.fetchOffsetByTimestamp`, `LogSegment.findOffsetByTimestamp`. Only one batch is opened.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from log.batches.batch import NO_TIMESTAMP, BatchView
from log.batches.records import Record, decode_records
from log.old_formats.old_batches import as_v2
from log.segments.index import IndexDamaged
from log.segments.scan import read_batch, scan_headers
from log.segments.segment import LOG_SUFFIX, Segment, SegmentDamaged
from wire.errors import RemoteProtocolError


class TimestampOffset(NamedTuple):
    """What ListOffsets answers."""

    timestamp_ms: int
    offset: int
    leader_epoch: int


def find_timestamp(
    segments: Sequence[Segment], timestamp_ms: int, start_offset: int, index_interval: int
) -> TimestampOffset | None:
    """The first record at or above `start_offset` with a timestamp of at least `timestamp_ms`.

    Raises SegmentDamaged, OSError.
    """
    for segment in segments:
        if not segment.size or segment.largest_timestamp(index_interval) < timestamp_ms:
            continue
        start = _start_position(segment, timestamp_ms, index_interval)
        for position, header in scan_headers(segment.files, segment.file, start, segment.size):
            if header.max_timestamp < timestamp_ms or header.last_offset < start_offset:
                continue
            for record in _records(segment, position, header):
                if record.timestamp_ms >= timestamp_ms and record.offset >= start_offset:
                    return TimestampOffset(record.timestamp_ms, record.offset, header.leader_epoch)
    return None


def find_max_timestamp(segments: Sequence[Segment], index_interval: int) -> TimestampOffset | None:
    """The first record that has the largest timestamp of the log, unless compaction took it. Raises SegmentDamaged,
    OSError.
    """
    found: Segment | None = None
    for segment in segments:
        timestamp = segment.largest_timestamp(index_interval) if segment.size else NO_TIMESTAMP
        if timestamp > (NO_TIMESTAMP if found is None else found.max_timestamp):
            found = segment
    if found is None:
        return None
    start = found.locate(found.max_timestamp_offset, index_interval)
    for position, header in scan_headers(found.files, found.file, start or 0, found.size):
        if not header.count:
            return None  # compaction left its header only; Kafka finds nothing then either
        for record in _records(found, position, header):
            if record.timestamp_ms >= found.max_timestamp:
                return TimestampOffset(record.timestamp_ms, record.offset, header.leader_epoch)
        break
    raise SegmentDamaged(f"{found.path(LOG_SUFFIX)}: no record has its largest timestamp")


def offsets_before(
    segments: Sequence[Segment], timestamp_ms: int | None, start_offset: int, end_offset: int
) -> list[int]:
    """Where segments begin that were last written at or before `timestamp_ms` (None: whenever), and the log's end;
    descending.

    The answer of ListOffsets v0, from the time before there was a time index. Raises OSError.
    """
    last = len(segments)
    if timestamp_ms is not None:
        while last and _modified_ms(segments[last - 1]) > timestamp_ms:
            last -= 1
    found = [max(segment.base_offset, start_offset) for segment in segments[:last]]
    if timestamp_ms is None and segments[-1].size:
        found.append(end_offset)
    return found[::-1]


def _modified_ms(segment: Segment) -> int:
    return segment.files.status(segment.path(LOG_SUFFIX)).modified_ms if segment.exists else 0


def _start_position(segment: Segment, timestamp_ms: int, index_interval: int) -> int:
    """A batch before which no record is as late; the index entry used is checked against its batch."""
    for _ in range(2):
        try:
            entry = segment.time_index.floor(timestamp_ms)
        except IndexDamaged:
            segment.rebuild(index_interval)
            continue
        if entry is None:
            return 0
        indexed_timestamp, relative_offset = entry
        offset = segment.base_offset + relative_offset
        position = segment.locate(offset, index_interval)
        if position is not None:
            for _, header in scan_headers(segment.files, segment.file, position, segment.size):
                if header.last_offset == offset and header.max_timestamp == indexed_timestamp:
                    return position
                break
        segment.rebuild(index_interval)
    return 0


def _records(segment: Segment, position: int, header: BatchView) -> list[Record]:
    batch = read_batch(segment.files, segment.file, position, header.size)
    if batch is None:
        raise SegmentDamaged(f"{segment.path(LOG_SUFFIX)} ends inside the batch at {position}")
    try:
        return decode_records(as_v2(batch))
    except RemoteProtocolError as error:
        raise SegmentDamaged(f"{segment.path(LOG_SUFFIX)}, position {position}: {error}") from None
