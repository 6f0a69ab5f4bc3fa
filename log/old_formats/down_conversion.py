"""Conversion of v2 batches to message sets of v0 or v1, for old consumers: Fetch v0 and v1 get v0, Fetch v2 and v3 get
v1.

Offsets and timestamps are preserved, and each batch keeps its compression; headers and control batches are dropped,
because the old formats have neither. From batches without compression the records below the requested offset are
dropped; compressed batches are sent unchanged, and the consumer skips the earlier records. Records that an old Kafka
wrote in an old format are sent unchanged.

Source: Kafka 3.9's `RecordsUtil.downConvert` and `LazyDownConversionRecords`. Unlike in Kafka, the answer ends with a
complete message. Not implemented: zstd, which the old formats do not support: the error is
UNSUPPORTED_COMPRESSION_TYPE, after all records before it have been read.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from trimaran.log.batches.batch import BatchView, Buffer, TimestampType, iter_batches
from trimaran.log.batches.columns import Columns, decode_columns
from trimaran.log.batches.records import Record
from trimaran.log.codecs.compression import Compression
from trimaran.log.old_formats.message_sets import MESSAGES_MAX, SET_BYTES_MAX, build_message_set
from trimaran.log.old_formats.old_batches import as_v2
from trimaran.wire.errors import ErrorCode, KafkaError, RemoteProtocolError
from trimaran.wire.identity import Offset

OVERFLOW = struct.pack(">qi", -1, (1 << 31) - 1)
"""The head of a message that does not fit: a consumer that receives only this reports that its fetch size is too small.
"""


def down_convert(batches: Buffer, magic: int, first_offset: Offset) -> bytes:
    """Converts whole `batches` to a message set of format `magic`, cut off at their size; the first one is always
    included.

    Returns `OVERFLOW` if none of them can be expressed in the old format (as Kafka answers). A record costs about 10
    µs, so this must not run in an event loop.

    Raises:
        KafkaError: UNSUPPORTED_COMPRESSION_TYPE: the first batch is compressed with zstd; MESSAGE_TOO_LARGE: it has
            more than a million records; CORRUPT_MESSAGE: its records are damaged.
    """
    out = bytearray()
    view = memoryview(batches)
    for batch in iter_batches(view, allow_partial_tail=True, allow_old=True):
        if batch.is_control:
            continue
        try:
            converted = _converted(batch, magic, first_offset)
        except KafkaError:
            if out:
                break  # the next fetch begins here, and gets the error
            raise
        if out and len(out) + len(converted) > len(view):
            break
        out += converted
    if not out:
        return OVERFLOW if view else b""
    return bytes(out)


def _converted(batch: BatchView, magic: int, first_offset: Offset) -> Buffer:
    if batch.magic <= magic:
        return batch.buffer
    compression = batch.compression
    if compression is Compression.ZSTD:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"{batch} is of zstd, for a consumer older than it",
        )
    if batch.count > MESSAGES_MAX:
        raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"{batch} is not converted")
    try:
        batch = as_v2(batch)
        columns = decode_columns([batch], SET_BYTES_MAX)
    except RemoteProtocolError as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(error)) from None
    append_time = batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    return build_message_set(
        _records(columns, batch, first_offset if compression is Compression.NONE else Offset(0)),
        magic=magic,
        compression=compression,
        append_time_ms=batch.max_timestamp if append_time else None,
    )


def _records(columns: Columns, batch: BatchView, first_offset: Offset) -> Iterator[Record]:
    """Yields the records at or above `first_offset`, without headers; raises CORRUPT_MESSAGE if offsets do not
    ascend.
    """
    before: int = batch.base_offset - 1
    for row, offset in enumerate(columns.offset):
        if offset <= before:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"offset {offset} again in {batch!r}")
        before = offset
        if offset >= first_offset:
            yield Record(
                Offset(offset), columns.timestamp_ms[row], columns.key(row), columns.value(row), ()
            )
