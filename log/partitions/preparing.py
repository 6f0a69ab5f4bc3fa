"""Prepares a log for its first reads and appends, in a thread that has the log alone.

Source: Kafka's `LogLoader`, which makes missing indexes and the state of producers before it serves a log.
"""

from __future__ import annotations

from contextlib import suppress

from trimaran.log.partitions.partition_log import PartitionLog
from trimaran.log.segments.recovery import lacks_index
from trimaran.log.segments.segment import SegmentDamaged
from trimaran.wire.errors import KafkaError


def prepare(log: PartitionLog) -> None:
    """Makes indexes that are missing, and builds the state of producers. Reads the active segment at the worst, and
    those without an index. Damage, or a failing disk, is reported by the next use of the log. Blocks.
    """
    with suppress(KafkaError, SegmentDamaged):
        with log.storage(f"rebuilding indexes in {log.directory}"):
            names = set(log.files.list_directory(log.directory))
            for segment in log.sealed_segments:
                if lacks_index(names, segment.base_offset):
                    segment.rebuild(log.config.index_interval_bytes)
                    segment.release()
        _ = log.producers
