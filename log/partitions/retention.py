"""Retention: the choice of old segments to delete.

Source: Kafka's `UnifiedLog.deleteOldSegments`. A segment is deleted if it is too old, if the log without it is still as
large as `retention.bytes`, or if it lies below the log's start; the oldest are deleted first, and none above the high
watermark (KAFKA-5634).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, zip_longest
from typing import NamedTuple

from trimaran.log.config import LogConfig
from trimaran.log.segments.in_steps import largest_timestamp
from trimaran.log.segments.segment import LOG_SUFFIX, Segment
from trimaran.log.steps import Steps, at_once
from trimaran.wire.identity import Offset


class LogBounds(NamedTuple):
    """The state of a log: offsets, and its size in bytes."""

    start_offset: Offset
    end_offset: Offset
    high_watermark: Offset
    size_bytes: int


def date_oldest(segments: Sequence[Segment], config: LogConfig, now_ms: int) -> Steps[None]:
    """Finds the largest timestamps that `deletable` needs. Raises OSError."""
    if not config.deletes or config.retention_ms < 0:
        return
    for segment in segments:
        timestamp = yield from largest_timestamp(segment, config.index_interval_bytes)
        is_young = timestamp >= 0 and now_ms - timestamp <= config.retention_ms
        if (
            is_young and config.retention_bytes < 0
        ):  # otherwise it may be deleted because of the size, and other segments because of their age
            return


def deletable(
    segments: Sequence[Segment],
    bounds: LogBounds,
    config: LogConfig,
    now_ms: int,
    segments_max: int | None = None,
) -> int:
    """Returns the number of the oldest segments that may be deleted, at most `segments_max`; if these are all segments,
    the active one must be rolled first.
    """
    remaining = bounds.size_bytes
    count = 0
    for segment, following in islice(
        zip_longest(segments, islice(segments, 1, None)), segments_max
    ):
        end_offset = bounds.end_offset if following is None else following.base_offset
        is_empty_active = following is None and not segment.size
        if end_offset > bounds.high_watermark or is_empty_active:
            break
        is_below_start = following is not None and end_offset <= bounds.start_offset
        if not (is_below_start or _is_surplus(segment, remaining, config, now_ms)):
            break
        remaining -= segment.size
        count += 1
    return count


def _is_surplus(segment: Segment, remaining_bytes: int, config: LogConfig, now_ms: int) -> bool:
    if not config.deletes:
        return False
    if 0 <= config.retention_bytes <= remaining_bytes - segment.size:
        return True
    return config.retention_ms >= 0 and now_ms - newest_ms(segment, config) > config.retention_ms


def newest_ms(segment: Segment, config: LogConfig) -> int:
    """Returns the age mark of a segment: its largest timestamp, or the time of the last write if it has none. Raises
    OSError.
    """
    timestamp = at_once(largest_timestamp(segment, config.index_interval_bytes))
    if timestamp >= 0:
        return timestamp
    return segment.files.status(segment.path(LOG_SUFFIX)).modified_ms
