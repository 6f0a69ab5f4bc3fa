"""Which old segments may go.

Source: Kafka's `UnifiedLog.deleteOldSegments`. A segment goes when it is too old, when the log without it is still as large as
`retention.bytes`, or when it lies below the log's start; always from the oldest on, and never above the high watermark (KAFKA-5634).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from log.segment import LOG_SUFFIX, Segment

if TYPE_CHECKING:
    from log.partition_log import PartitionLog


def deletable(
    log: PartitionLog, segments: Sequence[Segment], now_ms: int, high_watermark: int
) -> int:
    """How many of the oldest segments may go; all of them means that the active one is to be rolled first."""
    remaining = log.size_bytes
    count = 0
    for segment, following in zip(segments, [*segments[1:], None], strict=True):
        end_offset = log.log_end_offset if following is None else following.base_offset
        is_empty_active = following is None and not segment.size
        if end_offset > high_watermark or is_empty_active:
            break
        is_below_start = following is not None and end_offset <= log.log_start_offset
        if not (is_below_start or _is_surplus(log, segment, remaining, now_ms)):
            break
        remaining -= segment.size
        count += 1
    return count


def _is_surplus(log: PartitionLog, segment: Segment, remaining_bytes: int, now_ms: int) -> bool:
    config = log.config
    if not config.deletes:
        return False
    if 0 <= config.retention_bytes <= remaining_bytes - segment.size:
        return True
    return config.retention_ms >= 0 and now_ms - newest_ms(log, segment) > config.retention_ms


def newest_ms(log: PartitionLog, segment: Segment) -> int:
    """How old a segment is: its largest timestamp; without any, when the file was written last. Raises OSError."""
    timestamp = segment.largest_timestamp(log.config.index_interval_bytes)
    if timestamp >= 0:
        return timestamp
    return segment.files.status(segment.path(LOG_SUFFIX)).modified_ms
