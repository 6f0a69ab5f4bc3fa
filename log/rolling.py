"""When a segment is full, and what fits into one.

Source: Kafka's `LogSegment.shouldRoll`. A segment ends by size, by age, by full indexes, and when offsets would no longer fit its
indexes (KAFKA-5413).
"""

from __future__ import annotations

from collections.abc import Iterator

import crc32c

from log.batch import BatchView
from log.config import RELATIVE_OFFSET_MAX, LogConfig
from log.segment import LOG_SUFFIX, Segment

JITTER_PATH_BYTES = 64  # the segment's name and its partition's


def must_roll(
    active: Segment, config: LogConfig, size: int, last_offset: int, timestamp_ms: int, now_ms: int
) -> bool:
    """Whether batches of `size` bytes up to `last_offset`, the last of `timestamp_ms`, need a new segment."""
    if last_offset - active.base_offset > RELATIVE_OFFSET_MAX:
        return True
    return active.size > 0 and (
        active.size + size > config.segment_bytes
        or active.age_ms(timestamp_ms, now_ms) > _age_ms_max(active, config)
        or active.indexes_are_full(config.segment_index_bytes)
    )


def _age_ms_max(active: Segment, config: LogConfig) -> int:
    """`segment.ms` less a jitter of the segment's own, and for compaction not above `max.compaction.lag.ms`: it passes over the active segment."""
    age_ms = config.segment_ms
    if config.compacts:
        age_ms = min(age_ms, config.max_compaction_lag_ms)
    jitter_ms = min(config.segment_jitter_ms, age_ms)
    if jitter_ms:  # spread over segments and partitions, and the same after a restart
        age_ms -= crc32c.crc32c(bytes(active.path(LOG_SUFFIX))[-JITTER_PATH_BYTES:]) % jitter_ms
    return age_ms


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
