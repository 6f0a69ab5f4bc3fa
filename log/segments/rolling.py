"""When a segment is full, and what fits into one.

Source: Kafka's `LogSegment.shouldRoll`. A segment ends by size, by age, by full indexes, and when offsets would no
longer fit its indexes (KAFKA-5413).
"""

from __future__ import annotations

from collections.abc import Iterator

import crc32c

from trimaran.log.batches.batch import BatchView
from trimaran.log.config import RELATIVE_OFFSET_MAX, LogConfig
from trimaran.log.segments.segment import LOG_SUFFIX, Segment
from trimaran.wire.identity import Offset

JITTER_PATH_BYTES = 64  # the segment's name and its partition's


def must_roll(
    active: Segment,
    config: LogConfig,
    size: int,
    last_offset: Offset,
    timestamp_ms: int,
    now_ms: int,
) -> bool:
    """Whether batches of `size` bytes up to `last_offset`, the last of `timestamp_ms`, need a new segment."""
    if last_offset - active.base_offset > RELATIVE_OFFSET_MAX:
        return True
    used = active.size
    return used > 0 and (
        used + size > config.segment_bytes
        or active.indexes_are_full(config.segment_index_bytes)
        or _is_old(active, config, active.age_ms(timestamp_ms, now_ms))
    )


def _is_old(active: Segment, config: LogConfig, age_ms: int) -> bool:
    """Above `segment.ms` less a jitter of the segment's own, or above `max.compaction.lag.ms`: compaction passes over
    the active segment.
    """
    age_ms_max = config.segment_ms
    if config.compacts and config.max_compaction_lag_ms < age_ms_max:
        age_ms_max = config.max_compaction_lag_ms
    if age_ms <= age_ms_max - config.segment_jitter_ms:
        return False
    jitter_ms = min(config.segment_jitter_ms, age_ms_max)
    if jitter_ms:  # spread over segments and partitions, and the same after a restart
        path = bytes(active.path(LOG_SUFFIX))
        age_ms_max -= crc32c.crc32c(path[-JITTER_PATH_BYTES:]) % jitter_ms
    return age_ms > age_ms_max


def runs_within_segment(
    views: list[BatchView], segment_bytes: int
) -> Iterator[tuple[list[BatchView], int]]:
    """Splits fetched batches where one segment could not hold them; gives each run with its bytes."""
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
