"""Collects the facts on which compaction decides, and creates a round. Runs on the loop: the data that a round needs is
copied here.
"""

from __future__ import annotations

from collections.abc import Callable

from trimaran.log.compaction.choosing import Dirt, SealedSegment, measure
from trimaran.log.compaction.cleaning import CleanerLimits, Round, SourceSegment
from trimaran.log.compaction.retention import LastRecord, Retention
from trimaran.log.partitions.partition_log import PartitionLog
from trimaran.log.partitions.retention import newest_ms
from trimaran.log.segments.scan import scan_headers
from trimaran.log.segments.segment import Segment
from trimaran.wire.identity import Offset

LONG_MAX = (1 << 63) - 1


def dirt_of(
    log: PartitionLog, *, cleaned_to: Offset | None, high_watermark: Offset, now_ms: int
) -> Dirt:
    """Returns the dirty part of a log. Raises KafkaError KAFKA_STORAGE_ERROR."""
    sealed = log.sealed_segments
    ends = [segment.base_offset for segment in (*sealed, log.active_segment)][1:]
    with log.storage(f"dirt of {log.directory.name}"):
        facts = [_facts(log, segment, end) for segment, end in zip(sealed, ends, strict=True)]
    return measure(
        facts,
        log.config,
        cleaned_to=cleaned_to,
        log_start_offset=log.log_start_offset,
        log_end_offset=log.log_end_offset,
        stable_offset=log.last_stable_offset(high_watermark),
        now_ms=now_ms,
    )


def _facts(log: PartitionLog, segment: Segment, end: Offset) -> SealedSegment:
    """Returns the facts about segments. Timestamps are only read if a lag is configured, because this requires reading
    the segment.
    """
    config = log.config
    first = largest = -1
    if config.max_compaction_lag_ms < LONG_MAX:
        for _, view in scan_headers(segment.files, segment.file, 0, segment.size):
            first = view.max_timestamp
            break
    if config.min_compaction_lag_ms > 0:
        largest = newest_ms(segment, config)
    return SealedSegment(segment.base_offset, end, segment.size, first, largest)


def plan_round(
    log: PartitionLog,
    dirt: Dirt,
    *,
    limits: CleanerLimits,
    map_key: bytes,
    now_ms: int,
    pause: Callable[[int], None],
) -> Round:
    """Returns a round for `dirt`. `map_key`: 16 secret random bytes. Raises KafkaError KAFKA_STORAGE_ERROR."""
    sealed = log.sealed_segments
    ends = [segment.base_offset for segment in (*sealed, log.active_segment)][1:]
    last_records = {
        producer_id: LastRecord(entry.last_data_offset, entry.epoch)
        for producer_id, entry in log.producers.entries()
    }
    aborted = log.aborted_transactions(log.segment_base_offsets[0], dirt.end_offset)
    sources = [
        SourceSegment(segment, segment.size, segment.base_offset, end)
        for segment, end in zip(sealed, ends, strict=True)
        if end <= dirt.end_offset
    ]
    return Round(
        directory=log.directory,
        files=log.files,
        config=log.config,
        sources=sources,
        first_dirty_offset=dirt.first_dirty_offset,
        retention=Retention(now_ms, log.config.delete_retention_ms, dirt.end_offset, last_records),
        aborted=aborted,
        offsets=limits.offset_map(dirt.end_offset - dirt.first_dirty_offset, map_key),
        pause=pause,
    )
