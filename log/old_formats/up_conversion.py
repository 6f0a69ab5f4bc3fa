"""Conversion of a produced message set (v0, v1): it is checked and converted to one batch of v2, the format of all
logs.

The cases of the test plan, and the codes that Kafka 3.9 returns:

| what                                                              | answer                       |
|-------------------------------------------------------------------|------------------------------|
| nothing, or only a message cut short at the end                   | success, offset -1           |
| a size below 14, a magic beyond 2, sizes beyond the message       | CORRUPT_MESSAGE              |
| wrong CRC, of a message, a wrapper or an inner message            | CORRUPT_MESSAGE              |
| a message larger than max.message.bytes, or the batch of all | MESSAGE_TOO_LARGE            |
| a wrapper beside other messages; messages of several magics       | INVALID_RECORD               |
| a wrapper without value or messages, nested, or of zstd           | INVALID_RECORD               |
| inner messages of another magic than their wrapper                | INVALID_RECORD               |
| a v1 wrapper whose offset is before its last inner one, and not 0 | INVALID_RECORD               |
| inner offsets that are not consecutive                            | taken, with new offsets      |
| a null key, the topic is compacted                                | INVALID_RECORD               |
| a timestamp beyond the topic's limits                             | INVALID_TIMESTAMP            |
| log append time by the producer: the timestamp is not checked     | INVALID_TIMESTAMP      |

In cases in which Kafka returns UNKNOWN_SERVER_ERROR (compression ids 5 to 7, damaged compressed data, negative
timestamps) we return the specific code. A set of more than a million messages is RECORD_LIST_TOO_LARGE here; Kafka does
not limit the number.

Source: Kafka's `UnifiedLog.analyzeAndValidateRecords`, `LogValidator` (3.9, the last one that converts).
The batch is compressed like the set, or according to the topic's `compression.type`.
"""

from __future__ import annotations

from collections.abc import Iterator

from trimaran.log.batches.batch import TimestampType
from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.log.codecs.compression import Compression, OutputTooLarge
from trimaran.log.old_formats.message_sets import (
    MESSAGES_MAX,
    PREFIX_BYTES,
    LegacyRecord,
    inner_messages,
    iter_messages,
)
from trimaran.log.validation.validate import INT64_END, ProduceRules
from trimaran.wire.errors import ErrorCode, KafkaError, RemoteProtocolError
from trimaran.wire.identity import NO_TIMESTAMP


def convert_produced(records: memoryview, rules: ProduceRules, *, now_ms: int) -> bytes | None:
    """Converts a produced set of v0 or v1 to a batch with base offset 0; returns None if there is no whole message.

    It costs up to 10 µs per message and `rules.decompressed_bytes_max` of memory, so this must not run in an event
    loop.

    Raises:
        KafkaError: as in the table above; this is the fault of the producer.
    """
    first, compression = _check_outer(records, rules)
    if first is None:
        return None
    messages = iter_messages(records)
    if compression is not Compression.NONE:
        messages = _checked_inner(first, rules)
    batch = build_batch(
        (_checked(first, message, rules, now_ms) for message in messages),
        compression=compression if rules.compression is None else rules.compression,
        compression_level=rules.compression_level,
    )
    if len(batch) > rules.max_message_bytes:
        raise _too_large(len(batch), rules)
    return batch


def _invalid(why: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, why)


def _corrupt(why: object) -> KafkaError:
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, str(why))


def _too_large(size: int, rules: ProduceRules) -> KafkaError:
    why = f"{size} bytes, {rules.max_message_bytes} are allowed"
    return KafkaError(ErrorCode.MESSAGE_TOO_LARGE, why)


def _check_outer(
    records: memoryview, rules: ProduceRules
) -> tuple[LegacyRecord | None, Compression]:
    """Checks every message without opening it; returns the first one, and the compression of all."""
    first: LegacyRecord | None = None
    count = compressed = 0
    several_formats = False
    try:
        for message in iter_messages(records):
            if message.size > rules.max_message_bytes:
                raise _too_large(message.size, rules)
            if not message.has_valid_crc():
                raise _corrupt(f"wrong CRC in {message}")
            first = first or message
            several_formats = several_formats or message.magic != first.magic
            compressed += message.is_compressed
            count += 1
    except RemoteProtocolError as error:
        raise _corrupt(error) from None
    if several_formats:
        raise _invalid("messages of several formats in one set")
    if compressed and count > 1:
        raise _invalid("a compressed message beside others")
    if count > MESSAGES_MAX:
        raise KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE, f"more than {MESSAGES_MAX} messages")
    return first, Compression.NONE if first is None else _known_compression(first)


def _known_compression(message: LegacyRecord) -> Compression:
    try:
        compression = message.compression
    except RemoteProtocolError as error:
        raise _invalid(str(error)) from None
    if compression is Compression.ZSTD:
        raise _invalid(f"zstd in a message of format v{message.magic}")
    return compression


def _checked_inner(wrapper: LegacyRecord, rules: ProduceRules) -> Iterator[LegacyRecord]:
    try:
        for message in inner_messages(wrapper, rules.decompressed_bytes_max):
            if message.size - PREFIX_BYTES > rules.record_bytes_max:
                raise _invalid(f"{message} of more than {rules.record_bytes_max} bytes")
            if message.magic != wrapper.magic:
                raise _invalid(f"{message} in {wrapper}")
            if not message.has_valid_crc():
                raise _corrupt(f"wrong CRC in {message} of {wrapper}")
            yield message
    except OutputTooLarge as error:
        raise KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE, str(error)) from None
    except RemoteProtocolError as error:
        raise _invalid(str(error)) from None


def _checked(
    outer: LegacyRecord, message: LegacyRecord, rules: ProduceRules, now_ms: int
) -> NewRecord:
    if rules.requires_keys and message.key is None:
        raise _invalid(f"{message} has no key, the topic is compacted")
    timestamp = message.timestamp_ms
    if (
        rules.message_timestamp_type is TimestampType.CREATE_TIME and timestamp != NO_TIMESTAMP
    ):  # a producer's claim of log append time is then ignored
        age = now_ms - timestamp
        in_range = -rules.timestamp_after_max_ms <= age <= rules.timestamp_before_max_ms
        if not in_range or not 0 <= timestamp < INT64_END - 1:
            raise KafkaError(
                ErrorCode.INVALID_TIMESTAMP, f"timestamp {timestamp} is out of the topic's limits"
            )
    elif outer.timestamp_type is TimestampType.LOG_APPEND_TIME:
        raise KafkaError(ErrorCode.INVALID_TIMESTAMP, "log append time is for brokers to set")
    if not NO_TIMESTAMP <= timestamp < INT64_END - 1:  # the topic uses the broker's time
        timestamp = NO_TIMESTAMP
    record = message.record()
    return NewRecord(record.key, record.value, timestamp)
