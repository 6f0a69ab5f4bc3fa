"""The checks of Produce on a partition's records, with the exact error codes (`mB…` name the rows of the test plan).

Source: Kafka's `ProduceRequest.validateRecords`, `UnifiedLog.analyzeAndValidateRecords`, `LogValidator`.

The checks cover: that there is exactly one complete batch; its magic, base offset, size, CRC, compression id, control
and transactional flags, producer fields, its offset range against the record count; and each of its records
(`trimaran.log.batches.columns.check_records`), which are decompressed for this check if necessary. The producer's bytes
are stored, except that the header's largest timestamp is corrected to that of the records, as in Kafka, and that a
topic's `compression.type` may recompress them. Compared with a Kafka 4.3 broker on a hundred malformed batches, the
codes are the same except if Kafka answers UNKNOWN_SERVER_ERROR (unknown compression, damaged compressed data, lz4 that
Java cannot read: we return the specific code), if it accepts records that we refuse (bytes after the batch, a producer
id without epoch, offset deltas that are not consecutive, append time, a delete horizon or an undefined bit set by a
client, negative timestamps, sizes below -1 in a record, timestamps beyond 64 bits, bytes after the compressed stream),
and for a size beyond the request (INVALID_RECORD in Kafka, CORRUPT_MESSAGE here).
"""

from __future__ import annotations

from dataclasses import dataclass

from trimaran.log.batches.batch import (
    ATTRIBUTES_COMPRESSION,
    ATTRIBUTES_CONTROL,
    ATTRIBUTES_DELETE_HORIZON,
    ATTRIBUTES_END,
    ATTRIBUTES_LOG_APPEND_TIME,
    ATTRIBUTES_TRANSACTIONAL,
    CREATE_TIME,
    HEADER_BYTES,
    MAGIC,
    BatchView,
    Buffer,
    TimestampType,
    check_crc,
)
from trimaran.log.batches.columns import (
    COMPILED,
    INT64_MAX,
    INT64_MIN,
    LargestTimestamp,
    MalformedRecords,
    Problem,
    check_records,
)
from trimaran.log.batches.columns_walk import Walker
from trimaran.log.batches.records import rebuilt
from trimaran.log.codecs.compression import Compression, OutputTooLarge, compress, decompress
from trimaran.log.codecs.lz4_java import check_java_reads
from trimaran.log.config import LogConfig
from trimaran.log.validation.record_sizes import check_record_sizes
from trimaran.log.validation.rejected_records import find_rejected
from trimaran.wire.errors import ErrorCode, KafkaError, RemoteProtocolError

PRODUCE_VERSION_WITH_ZSTD = 7  # KIP-110
# An attribute access on the enum takes ten times as long.
LZ4, ZSTD = Compression.LZ4, Compression.ZSTD
SIZE_OF_SMALLEST_BATCH = 14  # that of v0; smaller sizes are damage, regardless of the magic
_MAGIC_POSITION = 16
_KNOWN_ATTRIBUTES = (
    ATTRIBUTES_COMPRESSION
    | ATTRIBUTES_LOG_APPEND_TIME
    | ATTRIBUTES_TRANSACTIONAL
    | ATTRIBUTES_CONTROL
    | ATTRIBUTES_DELETE_HORIZON
)
INT64_END = 1 << 63
# The maximum number of decompressed bytes of records that one request checks in one step: up to 20 ms for the smallest
# records, 2 ms for common ones. Interpreted code takes two hundred times as long.
BYTES_CHECKED_AT_ONCE_MAX = 2 << 20 if COMPILED else 64 << 10
# The maximum number of decompressed bytes of one batch. Kafka limits only each record; producers count bytes before
# compression (batch.size, max.request.size), so their batches rarely exceed the largest accepted frame (100 MiB).
DECOMPRESSED_BYTES_MAX = 128 << 20


@dataclass(frozen=True, slots=True)
class ProduceRules:
    """The rules of a partition, created once per topic config; `now_ms` is passed with each call."""

    max_message_bytes: int
    message_timestamp_type: TimestampType
    timestamp_before_max_ms: int
    timestamp_after_max_ms: int
    requires_keys: bool = False
    compression: Compression | None = None  # None: the producer's
    compression_level: int | None = None
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX
    record_bytes_max: int = DECOMPRESSED_BYTES_MAX  # the limit of a record in a compressed batch

    @classmethod
    def of(cls, config: LogConfig) -> ProduceRules:
        return cls(
            max_message_bytes=config.max_message_bytes,
            message_timestamp_type=config.message_timestamp_type,
            timestamp_before_max_ms=config.message_timestamp_before_max_ms,
            timestamp_after_max_ms=config.message_timestamp_after_max_ms,
            requires_keys=config.compacts,
            compression=config.compression,
            compression_level=config.compression_level,
            record_bytes_max=config.max_decompressed_message_bytes,
        )


class OverBudget(Exception):
    """Checking the batch takes longer than the caller can wait; the batch may be valid or not."""


def validate_produced(
    records: memoryview,
    rules: ProduceRules,
    *,
    now_ms: int,
    version: int = 13,
    budget: int | None = None,
) -> list[BatchView]:
    """Returns the only batch in `records`, with the largest timestamp of its records; a copy if that timestamp was
    wrong and `records` is read-only.

    `version` is that of the Produce request. `budget` is the number of bytes that may be checked before other
    connections are served; without it the call may take a second, so it must not run in an event loop. Recompression
    and the search of refused records exceed any budget.

    Raises:
        KafkaError: CORRUPT_MESSAGE, INVALID_RECORD, UNSUPPORTED_COMPRESSION_TYPE, MESSAGE_TOO_LARGE, INVALID_TIMESTAMP;
            RejectedRecords for keys or timestamps.
        OverBudget: `budget` is spent.
    """
    limits = _timestamp_limits(rules, now_ms)
    if _is_sound(records, rules, limits, budget):
        return [BatchView(records)]
    if budget is not None and _is_over(records, rules, budget):
        raise OverBudget
    walker = Walker(records)
    # A batch that is too large is refused without a check of all its records.
    has_sound_header = len(records) <= rules.max_message_bytes and walker.has_sound_header(records)
    batch = BatchView(records) if has_sound_header else _only_batch(records)
    codec = batch.compression
    if codec is ZSTD and version < PRODUCE_VERSION_WITH_ZSTD:
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
    if not has_sound_header:
        check_crc(batch)
        _check_fields(batch)
    is_recompressed = rules.compression is not None and rules.compression is not codec
    body = _body(records, codec, rules, budget)
    if codec:
        check_record_sizes(batch, body, rules.record_bytes_max)
    if (
        codec  # otherwise `_is_sound` returned False
        and has_sound_header
        and not is_recompressed
        and walker.has_sound_records(
            body, rules.requires_keys, *limits, rules.message_timestamp_type is not CREATE_TIME
        )
    ):
        return [batch]
    largest = _check_body(batch, body, rules, limits, budget)
    if is_recompressed:
        return [_recompressed(batch, body, largest, rules)]
    if largest.timestamp_ms != batch.max_timestamp and rules.message_timestamp_type is CREATE_TIME:
        if records.readonly:
            batch = BatchView(memoryview(bytearray(batch.buffer)))
        batch.stamp_max_timestamp(largest.timestamp_ms)
    return [batch]


def _is_sound(
    records: memoryview, rules: ProduceRules, limits: tuple[int, int], budget: int | None
) -> bool:
    """Whether this is an uncompressed batch that is valid and needs no change.

    Nearly all uncompressed batches are. All other batches are left to the later checks, which find the fault and create
    the error.
    """
    size = len(records)
    if (
        not HEADER_BYTES <= size <= rules.max_message_bytes
        or records[ATTRIBUTES_END - 1] & ATTRIBUTES_COMPRESSION
        or rules.compression  # to a codec other than NONE
    ):
        return False
    if budget is not None and size > budget:
        raise OverBudget
    walker = Walker(records)
    return walker.has_sound_header(records) and walker.has_sound_records(
        None, rules.requires_keys, *limits, rules.message_timestamp_type is not CREATE_TIME
    )


def _is_over(records: memoryview, rules: ProduceRules, budget: int) -> bool:
    """Whether a compressed batch, or one to be compressed, exceeds the budget of this turn; a later turn also computes
    the checksum.

    A batch above the size limit is refused immediately.
    """
    if not HEADER_BYTES <= len(records) <= rules.max_message_bytes:
        return False
    codec = records[ATTRIBUTES_END - 1] & ATTRIBUTES_COMPRESSION
    is_recompressed = rules.compression is not None and rules.compression != codec
    return is_recompressed or (codec != Compression.NONE and len(records) > budget)


def _recompressed(
    batch: BatchView, body: Buffer, largest: LargestTimestamp, rules: ProduceRules
) -> BatchView:
    """Recompresses the batch with the topic's codec; like Kafka, checks the size again."""
    assert rules.compression is not None
    new = rebuilt(
        batch,
        compress(rules.compression, body, level=rules.compression_level),
        attributes=batch.attributes & ~ATTRIBUTES_COMPRESSION | rules.compression,
        base_timestamp=batch.base_timestamp,
        max_timestamp=(
            largest.timestamp_ms
            if rules.message_timestamp_type is CREATE_TIME
            else batch.max_timestamp
        ),
        count=batch.count,
    )
    if new.size > rules.max_message_bytes:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"batch of {new.size} bytes as {rules.compression.name.lower()}, {rules.max_message_bytes} are allowed",
        )
    return new


def _invalid(why: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, why)


def _only_batch(records: memoryview) -> BatchView:
    """Returns the only batch of magic 2 for a partition; it must be whole, without trailing bytes (mB2, mB3, mB4)."""
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
        check_crc(batch)
        raise _invalid("more than one record batch for a partition")
    return batch


def _check_fields(batch: BatchView) -> None:
    """Checks the record count, the producer's fields, and the fields that only brokers may set (mB7, mB9, mB10)."""
    if batch.attributes & ATTRIBUTES_CONTROL:
        raise _invalid("clients do not write control records")
    if batch.attributes & ATTRIBUTES_DELETE_HORIZON:
        # The cleaner would interpret the first timestamp as the delete horizon of tombstones (KIP-534).
        raise _invalid("a delete horizon is for the log cleaner to set")
    if unknown := batch.attributes & ~_KNOWN_ATTRIBUTES:
        raise _invalid(f"attributes 0x{unknown & 0xFFFF:x}, which have no meaning")
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
    if batch.attributes & ATTRIBUTES_LOG_APPEND_TIME:
        raise KafkaError(ErrorCode.INVALID_TIMESTAMP, "log append time is for brokers to set")


def _timestamp_limits(rules: ProduceRules, now_ms: int) -> tuple[int, int]:
    """Returns the smallest and the largest timestamp that a record may have."""
    if rules.message_timestamp_type is not CREATE_TIME:
        return INT64_MIN, INT64_MAX
    least = max(0, now_ms - rules.timestamp_before_max_ms)
    return least, min(now_ms + rules.timestamp_after_max_ms, INT64_MAX)


def _body(
    records: memoryview, codec: Compression, rules: ProduceRules, budget: int | None
) -> Buffer:
    """Returns the decompressed bytes of the records, at most `budget` (mB7); a view of `records` if they are not
    compressed.

    Records that Java consumers cannot read are refused, because they would stop these consumers at this offset forever.
    """
    payload = records[HEADER_BYTES:]
    limit = rules.decompressed_bytes_max
    if budget is not None:
        walked = 0 if codec else len(records)  # checked by `_is_sound`
        limit = min(limit, budget - walked)
        if len(records) > limit:  # data with a smaller decompressed size still costs its own size
            raise OverBudget
    try:
        if codec is LZ4:
            check_java_reads(payload)
        body = decompress(codec, payload, limit) if codec else payload
    except OutputTooLarge as error:
        if limit < rules.decompressed_bytes_max:
            raise OverBudget from None
        raise _invalid(str(error)) from None
    except RemoteProtocolError as error:
        raise _invalid(str(error)) from None
    return body


def _check_body(
    batch: BatchView,
    body: Buffer,
    rules: ProduceRules,
    limits: tuple[int, int],
    budget: int | None,
) -> LargestTimestamp:
    """Checks every record: sizes, offsets, keys and timestamps (mB7, mB8, mB12, mB13)."""
    least, most = limits
    try:
        return check_records(
            body,
            batch.count,
            batch.base_timestamp,
            requires_keys=rules.requires_keys,
            timestamp_min_ms=least,
            timestamp_max_ms=most,
        )
    except MalformedRecords as error:
        if error.problem in (Problem.NULL_KEY, Problem.TIMESTAMP_RANGE):
            if budget is not None:
                raise OverBudget from None
            raise _rejected(batch, body, rules, limits, error) from None
        raise _invalid(str(error)) from None


def _rejected(
    batch: BatchView,
    body: Buffer,
    rules: ProduceRules,
    limits: tuple[int, int],
    error: MalformedRecords,
) -> KafkaError:
    """Returns the error for a batch in which `error` was found first."""
    least, most = limits
    try:
        found = find_rejected(
            batch, body, requires_keys=rules.requires_keys, least_ms=least, most_ms=most
        )
    except MalformedRecords as damage:
        return _invalid(str(damage))
    if found:
        return found
    is_timestamp = error.problem is Problem.TIMESTAMP_RANGE
    return KafkaError(
        ErrorCode.INVALID_TIMESTAMP if is_timestamp else ErrorCode.INVALID_RECORD, str(error)
    )
