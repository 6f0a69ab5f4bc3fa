"""Chooses the part of a log to compact and the segments to merge, and decides whether compaction is worthwhile. Pure
decisions based on given facts.

Source: `LogCleanerManager.cleanableOffsets`, `LogToClean`, `Cleaner.groupSegmentsBySize` of Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from trimaran.log.config import RELATIVE_OFFSET_MAX, LogConfig
from trimaran.wire.identity import Offset


class SealedSegment(NamedTuple):
    """The facts about a segment that is not active. Times are in ms; -1 if they are not needed, or the first batch has
    none.
    """

    base_offset: Offset
    next_base_offset: Offset  # the base offset of the segment after it
    size: int
    first_timestamp: int
    largest_timestamp: int


class Dirt(NamedTuple):
    """The dirty part of a log. `first_dirty_offset` is the end of the last round; the next round would clean from its
    segment up to `end_offset`.
    """

    first_dirty_offset: Offset
    end_offset: Offset
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool  # older than max.compaction.lag.ms

    @property
    def ratio(self) -> float:
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    def is_due(self, config: LogConfig) -> bool:
        return self.dirty_bytes > 0 and (
            self.is_overdue or self.ratio > config.min_cleanable_dirty_ratio
        )


def measure(
    segments: Sequence[SealedSegment],
    config: LogConfig,
    *,
    cleaned_to: Offset | None,
    log_start_offset: Offset,
    log_end_offset: Offset,
    stable_offset: Offset,
    now_ms: int,
) -> Dirt:
    """Measures the dirty part of a log; records at or above `stable_offset` are never cleaned (P13, KAFKA-13194).

    `cleaned_to` is the checkpoint: if it is not within the log, the whole log counts as dirty.
    """
    first_dirty = log_start_offset
    if cleaned_to is not None and log_start_offset <= cleaned_to <= log_end_offset:
        first_dirty = cleaned_to
    end_offset = first_dirty
    clean_bytes = dirty_bytes = 0
    is_overdue = False
    for segment in segments:
        if segment.next_base_offset <= first_dirty:
            clean_bytes += segment.size
            continue
        is_young = segment.largest_timestamp > now_ms - config.min_compaction_lag_ms
        if segment.next_base_offset > stable_offset or (
            config.min_compaction_lag_ms > 0 and is_young
        ):
            break
        end_offset = segment.next_base_offset
        dirty_bytes += segment.size
        age_ms = now_ms - segment.first_timestamp
        if segment.first_timestamp > 0 and age_ms > config.max_compaction_lag_ms:
            is_overdue = True
    return Dirt(first_dirty, end_offset, clean_bytes, dirty_bytes, is_overdue)


class GroupMember(NamedTuple):
    """The sizes that determine the grouping; sizes of indexes are in bytes."""

    base_offset: Offset
    next_base_offset: Offset
    size: int
    index_size: int
    time_index_size: int


def group(members: Sequence[GroupMember], config: LogConfig) -> Iterator[list[int]]:
    """Returns runs of segment indices that are merged: within the limits of a segment's size, indexes and offsets
    (KAFKA-5413, KAFKA-6264).
    """
    run: list[int] = []
    size = index_size = time_index_size = 0
    for index, member in enumerate(members):
        fits = not run or (
            size + member.size <= config.segment_bytes
            and index_size + member.index_size <= config.segment_index_bytes
            and time_index_size + member.time_index_size <= config.segment_index_bytes
            and (
                not member.size
                or member.next_base_offset - 1 - members[run[0]].base_offset <= RELATIVE_OFFSET_MAX
            )
        )
        if not fits:
            yield run
            run, size, index_size, time_index_size = [], 0, 0, 0
        run.append(index)
        size += member.size
        index_size += member.index_size
        time_index_size += member.time_index_size
    if run:
        yield run
