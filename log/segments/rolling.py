"""Rolling: the conditions under which a segment is full, and the batches that fit into it.

Source: Kafka's `LogSegment.shouldRoll`. A segment is rolled by size, by age, when its indexes are full, and when
offsets no longer fit into its indexes (KAFKA-5413).
"""

from __future__ import annotations

from collections.abc import Iterator

import crc32c

from trimaran.log.batches.batch import BatchView
from trimaran.log.config import RELATIVE_OFFSET_MAX, LogConfig
from trimaran.log.segments.index import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES
from trimaran.log.segments.segment import LOG_SUFFIX, Segment, SegmentRoom
from trimaran.wire.identity import Offset, Position

JITTER_PATH_BYTES = 64  # the name of the segment and that of its partition


def must_roll(
    active: Segment,
    config: LogConfig,
    size: int,
    last_offset: Offset,
    timestamp_ms: int,
    now_ms: int,
) -> bool:
    """Returns whether batches of `size` bytes up to `last_offset`, the last of `timestamp_ms`, need a new segment."""
    if last_offset - active.base_offset > RELATIVE_OFFSET_MAX:
        return True
    used = active.size
    return used > 0 and (
        used + size > config.segment_bytes
        or entries_left(active, config.segment_index_bytes) < 0
        or _is_old(active, config, age_ms(active, timestamp_ms, now_ms))
    )


def room_left(active: Segment, config: LogConfig) -> SegmentRoom:
    """Returns the room in the current segment; it stays valid while batches are appended."""
    # An index may get one entry immediately, and each further entry after more than `index.interval.bytes`.
    entries = entries_left(active, config.segment_index_bytes) - 1
    indexed = active.size + entries * (config.index_interval_bytes + 1)
    first, newest_ms = active.first_timestamp, -1  # by the clock: timestamps may be old
    if first is not None and first >= 0:
        newest_ms = first + _age_ms_max(config) - config.segment_jitter_ms
    last_offset = active.base_offset + RELATIVE_OFFSET_MAX
    return SegmentRoom(config, min(indexed, Position(config.segment_bytes)), last_offset, newest_ms)


def entries_left(active: Segment, index_bytes_max: int) -> int:
    """Returns the number of entries that fit into both indexes before the segment must be rolled; negative if it must
    be rolled now. One time entry is reserved for `Segment.seal`.
    """
    offsets = index_bytes_max // OFFSET_ENTRY_BYTES - 1 - active.offset_index.entries
    times = index_bytes_max // TIME_ENTRY_BYTES - 2 - active.time_index.entries
    return min(offsets, times)


def age_ms(active: Segment, timestamp_ms: int, now_ms: int) -> int:
    """Returns the time between the first batch and a batch with `timestamp_ms`; uses the clock if there are no
    timestamps.
    """
    first = active.first_timestamp
    if first is None or first < 0 or timestamp_ms < 0:
        return now_ms - active.opened_ms
    return timestamp_ms - first


def _age_ms_max(config: LogConfig) -> int:
    """Returns `segment.ms` or, if less, `max.compaction.lag.ms`: compaction skips the active segment."""
    if config.compacts and config.max_compaction_lag_ms < config.segment_ms:
        return config.max_compaction_lag_ms
    return config.segment_ms


def _is_old(active: Segment, config: LogConfig, age_ms: int) -> bool:
    """Returns whether the age exceeds the maximum age minus the jitter of the segment."""
    age_ms_max = _age_ms_max(config)
    if age_ms <= age_ms_max - config.segment_jitter_ms:
        return False
    jitter_ms = min(config.segment_jitter_ms, age_ms_max)
    if jitter_ms:  # different for each segment and partition, and the same after a restart
        path = bytes(active.path(LOG_SUFFIX))
        age_ms_max -= crc32c.crc32c(path[-JITTER_PATH_BYTES:]) % jitter_ms
    return age_ms > age_ms_max


def runs_within_segment(
    views: list[BatchView], segment_bytes: int
) -> Iterator[tuple[list[BatchView], int]]:
    """Splits fetched batches into runs that each fit into one segment; yields each run with its size in bytes."""
    run: list[BatchView] = []
    size = 0
    for view in views:
        if run and (
            size + view.size > segment_bytes
            or view.last_offset - run[0].base_offset > RELATIVE_OFFSET_MAX
        ):
            yield run, size
            run, size = [], 0
        run.append(view)
        size += view.size
    yield run, size
