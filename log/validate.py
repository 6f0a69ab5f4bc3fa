"""The checks of Produce on a partition's records, with the exact error codes (`mB…` name the rows of the test plan).

Source: Kafka's `ProduceRequest.validateRecords`, `UnifiedLog.analyzeAndValidateRecords`, `LogValidator`.

What is checked of every batch, without a look at its records: that there is exactly one, whole; its magic, base offset, size,
CRC, compression id, control and transactional flags, producer fields, offset range against record count, timestamps of the
header against the topic's limits, and that as many records could lie in so many bytes.

Records themselves are walked, as Kafka walks all of them, when there are at most `RECORDS_WALKED_MAX` and they are not
compressed, when the topic is compacted (keys must not be null), and when `rules.walk_records` asks for it. Otherwise a
client that computes a right CRC over malformed records has them stored: readers of that partition get an error from their own
decoder, nothing of the broker reads them. Walking costs 1 µs a record in Python, on one event loop for all.
Compared with a Kafka 4.3 broker on a hundred malformed batches, the codes are the same except where Kafka answers
UNKNOWN_SERVER_ERROR (unknown compression, damaged compressed data: ours is the code that says it), where it takes what we refuse
(bytes after the batch, a producer id without epoch, offset deltas that are no sequence, append time set by a client, negative
timestamps), and for a size beyond the request (INVALID_RECORD there, CORRUPT_MESSAGE here).
Record timestamps are checked with the walk only; a header whose largest timestamp is not the records' is stored as it is (Kafka
corrects it).
"""

from __future__ import annotations

from dataclasses import dataclass

from log.batch import (
    ATTRIBUTES_CONTROL,
    ATTRIBUTES_LOG_APPEND_TIME,
    HEADER_BYTES,
    MAGIC,
    NO_TIMESTAMP,
    RECORD_BYTES_MIN,
    BatchView,
    TimestampType,
    decode_records,
    has_valid_crc,
)
from log.codecs import Compression
from log.config import LogConfig
from wire.errors import ErrorCode, KafkaError, RemoteProtocolError

RECORDS_WALKED_MAX = 8  # about 10 µs, less than the write that follows
PRODUCE_VERSION_WITH_ZSTD = 7  # KIP-110
SIZE_OF_SMALLEST_BATCH = 14  # of format v0; smaller sizes are damage, whatever the magic
_MAGIC_POSITION = 16
INT64_END = 1 << 63


@dataclass(frozen=True, slots=True)
class ProduceRules:
    """What a partition accepts; made once per topic config, `now_ms` is given per call."""

    max_message_bytes: int
    message_timestamp_type: TimestampType
    timestamp_before_max_ms: int
    timestamp_after_max_ms: int
    requires_keys: bool = False
    walk_records: bool = False
    decompressed_bytes_max: int = (
        128 << 20
    )  # of a walked batch: above any batch that max.message.bytes lets in uncompressed

    @classmethod
    def of(cls, config: LogConfig, *, walk_records: bool = False) -> ProduceRules:
        return cls(
            max_message_bytes=config.max_message_bytes,
            message_timestamp_type=config.message_timestamp_type,
            timestamp_before_max_ms=config.message_timestamp_before_max_ms,
            timestamp_after_max_ms=config.message_timestamp_after_max_ms,
            requires_keys=config.compacts,
            walk_records=walk_records,
        )


def validate_produced(
    records: memoryview, rules: ProduceRules, *, now_ms: int, version: int = 13
) -> list[BatchView]:
    """The one batch that `records` is.

    `version` is that of the Produce request.

    Raises:
        KafkaError: CORRUPT_MESSAGE, INVALID_RECORD, UNSUPPORTED_COMPRESSION_TYPE, MESSAGE_TOO_LARGE, INVALID_TIMESTAMP.
    """
    batch = _only_batch(records)
    compression = batch.compression
    if compression is Compression.ZSTD and version < PRODUCE_VERSION_WITH_ZSTD:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"zstd in a Produce request of version {version}",
        )
    if batch.base_offset != 0:
        raise _invalid(f"base offset {batch.base_offset} from a producer")
    if batch.size > rules.max_message_bytes:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"batch of {batch.size} bytes, {rules.max_message_bytes} are allowed",
        )
    if not has_valid_crc(batch):
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"wrong CRC in {batch!r}")
    _check_fields(batch)
    _check_timestamps(batch, rules, now_ms)
    uncompressed = compression is Compression.NONE
    if uncompressed and batch.count * RECORD_BYTES_MIN > batch.size - HEADER_BYTES:
        raise _invalid(f"{batch.count} records in {batch.size} bytes")
    is_short = uncompressed and batch.count <= RECORDS_WALKED_MAX
    if is_short or rules.requires_keys or rules.walk_records:
        _walk(batch, rules, now_ms)
    return [batch]


def _invalid(why: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, why)


def _only_batch(records: memoryview) -> BatchView:
    """mB3, mB4, and sizes that cannot be (mB2)."""
    if len(records) < HEADER_BYTES:
        if len(records) > _MAGIC_POSITION and records[_MAGIC_POSITION] != MAGIC:
            raise _invalid(f"magic {records[_MAGIC_POSITION]} where 2 is served")
        raise _invalid(f"no record batch in {len(records)} bytes")
    batch = BatchView(records)
    if batch.size < SIZE_OF_SMALLEST_BATCH + 12:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"batch of {batch.size} bytes")
    if batch.magic != MAGIC:
        code = ErrorCode.INVALID_RECORD if 0 <= batch.magic < MAGIC else ErrorCode.CORRUPT_MESSAGE
        raise KafkaError(code, f"magic {batch.magic} where 2 is served")
    if batch.size < HEADER_BYTES or batch.size > len(records):
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE, f"batch of {batch.size} bytes in {len(records)}"
        )
    if batch.size < len(records):
        batch.buffer = records[: batch.size]
        if not has_valid_crc(batch):
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"wrong CRC in {batch!r}")
        raise _invalid("more than one record batch for a partition")
    return batch


def _check_fields(batch: BatchView) -> None:
    """mB9, mB10, and the count of mB7."""
    if batch.attributes & ATTRIBUTES_CONTROL:
        raise _invalid("clients do not write control records")
    if batch.last_offset_delta < 0 or batch.count != batch.last_offset_delta + 1:
        raise _invalid(f"{batch.count} records in an offset range of {batch.last_offset_delta + 1}")
    if batch.producer_id >= 0:
        if batch.base_sequence < 0 or batch.producer_epoch < 0:
            raise _invalid(
                f"producer {batch.producer_id} with epoch {batch.producer_epoch}, "
                f"sequence {batch.base_sequence}"
            )
    elif batch.is_transactional:
        raise _invalid("a transactional batch without producer id")


def _check_timestamps(batch: BatchView, rules: ProduceRules, now_ms: int) -> None:
    """mB12: the header's two timestamps; those of the records lie between them unless it lies."""
    if batch.attributes & ATTRIBUTES_LOG_APPEND_TIME:
        raise KafkaError(ErrorCode.INVALID_TIMESTAMP, "log append time is for brokers to set")
    if rules.message_timestamp_type is TimestampType.LOG_APPEND_TIME:
        return
    for timestamp in (batch.base_timestamp, batch.max_timestamp):
        _check_timestamp(timestamp, rules, now_ms)


def _check_timestamp(timestamp: int, rules: ProduceRules, now_ms: int) -> None:
    if timestamp == NO_TIMESTAMP:
        return
    age = now_ms - timestamp
    if timestamp < 0 or not (-rules.timestamp_after_max_ms <= age <= rules.timestamp_before_max_ms):
        raise KafkaError(
            ErrorCode.INVALID_TIMESTAMP,
            f"timestamp {timestamp} is not within [{now_ms - rules.timestamp_before_max_ms}, "
            f"{now_ms + rules.timestamp_after_max_ms}]",
        )


def _walk(batch: BatchView, rules: ProduceRules, now_ms: int) -> None:
    """mB7, mB8, mB13: every record."""
    try:
        records = decode_records(batch, rules.decompressed_bytes_max)
    except RemoteProtocolError as error:
        raise _invalid(str(error)) from None
    for index, record in enumerate(records):
        if record.offset != index:
            raise _invalid(f"record {index} has offset delta {record.offset}")
        if rules.requires_keys and record.key is None:
            raise _invalid(f"record {index} has no key, the topic is compacted")
        if not -INT64_END <= record.timestamp_ms < INT64_END:
            raise _invalid(f"record {index} has timestamp {record.timestamp_ms}")
        if rules.message_timestamp_type is TimestampType.CREATE_TIME:
            _check_timestamp(record.timestamp_ms, rules, now_ms)
