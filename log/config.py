"""The configuration of a partition's log: sizes, times and limits.

Source: Kafka's topic configs (`TopicConfig`); the names are the same with underscores, and the defaults are those of
Kafka 4.4. `trimaran.node.config` parses and validates user input; this is the typed result for `log`, which
`trimaran.broker.metadata.topic_settings` fills.
"""

from __future__ import annotations

from dataclasses import dataclass

from trimaran.log.batches.batch import TimestampType
from trimaran.log.codecs.compression import Compression

RELATIVE_OFFSET_MAX = (
    1 << 31
) - 1  # index entries hold offsets relative to the segment in an int32


@dataclass(frozen=True, slots=True)
class LogConfig:
    """The limits of one partition's log; -1 means no limit, as in Kafka."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 24 * 3600 * 1000
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    # The bounds of write-behind: milliseconds, checked periodically, and records.
    flush_ms: int = (1 << 63) - 1
    flush_messages: int = (1 << 63) - 1
    retention_ms: int = 7 * 24 * 3600 * 1000  # -1: forever
    retention_bytes: int = -1  # -1: unlimited
    deletes: bool = True  # cleanup.policy has `delete`
    compacts: bool = False  # cleanup.policy has `compact`
    max_message_bytes: int = 1048588
    max_decompressed_message_bytes: int = (1 << 31) - 9  # the size of the largest array in Java
    compression: Compression | None = None  # the stored codec; None: the producer's
    compression_level: int | None = None  # the level of that codec; None: the default of the codec
    message_timestamp_type: TimestampType = TimestampType.CREATE_TIME
    message_timestamp_before_max_ms: int = (1 << 63) - 1
    message_timestamp_after_max_ms: int = 3600 * 1000
    producer_id_expiration_ms: int = 24 * 3600 * 1000
    # New segments have their full size as zeros until they are rolled or closed.
    preallocate: bool = False
    file_delete_delay_ms: int = 0  # from the removal of a segment to that of its files
    segment_jitter_ms: int = 0  # the largest random reduction of segment_ms
    min_cleanable_dirty_ratio: float = 0.5
    delete_retention_ms: int = 24 * 3600 * 1000
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = (1 << 63) - 1
