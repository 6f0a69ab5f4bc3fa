"""When a segment is full, and what fits into one.

Source: Kafka's `LogSegment.shouldRoll`. A segment ends by size, by age, by full indexes, and when offsets would no longer fit its
indexes (KAFKA-5413).
"""

from __future__ import annotations

from collections.abc import Iterator

from log.batch import BatchView
from log.config import RELATIVE_OFFSET_MAX, LogConfig
from log.segment import Segment


def must_roll(
    active: Segment, config: LogConfig, size: int, last_offset: int, timestamp_ms: int, now_ms: int
) -> bool:
    """Whether batches of `size` bytes up to `last_offset`, the last of `timestamp_ms`, need a new segment."""
    if last_offset - active.base_offset > RELATIVE_OFFSET_MAX:
        return True
    return active.size > 0 and (
        active.size + size > config.segment_bytes
        or active.age_ms(timestamp_ms, now_ms) > config.segment_ms
        or active.indexes_are_full(config.segment_index_bytes)
    )


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
