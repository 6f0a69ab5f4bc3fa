"""The records of a batch of format v2: decoding and encoding them. Their grammar is in
`trimaran.log.batches.batch.BatchView`.

Source: Kafka's `DefaultRecord` and `MemoryRecordsBuilder` (KIP-98, KIP-82 headers).
See `log/validation/validate.py` for the checks of Produce.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypedDict, Unpack

import crc32c

from trimaran.log.batches.batch import (
    ATTRIBUTES_COMPRESSION,
    ATTRIBUTES_CONTROL,
    ATTRIBUTES_LOG_APPEND_TIME,
    ATTRIBUTES_TRANSACTIONAL,
    CRC,
    CRC_POSITION,
    CRC_START,
    HEADER,
    HEADER_BYTES,
    MAGIC,
    PREFIX_BYTES,
    BatchView,
    Buffer,
    TimestampType,
)
from trimaran.log.codecs.compression import Compression, compress, decompress, decompress_in_pieces
from trimaran.wire.buffers.primitives import VARINTS, read_varint, read_varlong
from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.identity import (
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    LeaderEpoch,
    Offset,
    ProducerEpoch,
    ProducerId,
)

RECORD_BYTES_MIN = 7  # length, attributes, two deltas, two sizes and a header count, one byte each
# Default output limit of `decode_records`: 2.5 times the largest frame.
RECORDS_BYTES_MAX = 256 << 20
# The maximum number of headers of a record: each takes at least two bytes.
HEADERS_MAX = RECORDS_BYTES_MAX // 2


class RecordHeader(NamedTuple):
    """A header of a record; keys may repeat, and invalid UTF-8 in them is replaced, as in Kafka. `value` may be
    null.
    """

    key: str
    value: bytes | None


class Record(NamedTuple):
    """A decoded record, with absolute offset and timestamp."""

    offset: Offset
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[RecordHeader, ...]


class NewRecord(NamedTuple):
    """A record to be added to a batch."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: Sequence[tuple[str, bytes | None]] = ()


def records_bytes(batch: BatchView, limit_bytes: int = RECORDS_BYTES_MAX) -> Buffer:
    """Returns the decompressed records as Kafka reads them, at most `limit_bytes` (`codecs.OutputTooLarge`)."""
    payload = memoryview(batch.buffer)[HEADER_BYTES:]
    if not batch.attributes & ATTRIBUTES_COMPRESSION:
        return payload
    return decompress(batch.compression, payload, limit_bytes, may_be_followed=True)


def records_in_pieces(batch: BatchView, piece_bytes: int) -> Iterator[Buffer]:
    """Yields the bytes of `records_bytes` in pieces with arbitrary boundaries, for records that are too large to be
    held in memory. Raises as `decompress_in_pieces` does.
    """
    payload = memoryview(batch.buffer)[HEADER_BYTES:]
    if not batch.attributes & ATTRIBUTES_COMPRESSION:
        return (payload[at : at + piece_bytes] for at in range(0, len(payload), piece_bytes))
    return decompress_in_pieces(batch.compression, payload, piece_bytes)


def decode_records(batch: BatchView, limit_bytes: int = RECORDS_BYTES_MAX) -> list[Record]:
    """Returns all records of a whole batch, with copies of key, value and headers. Raises as `iter_records` does."""
    return [record for record, _ in iter_records(batch, limit_bytes)]


def iter_records(
    batch: BatchView, limit_bytes: int = RECORDS_BYTES_MAX, headers_max: int = HEADERS_MAX
) -> Iterator[tuple[Record, int]]:
    """Yields each record of a whole batch with its first `headers_max` headers, and the count of all its headers. A
    header of two bytes becomes an object of a hundred bytes, so a few kilobytes may exhaust the memory.

    Raises:
        RemoteProtocolError: the records contradict the header, or exceed `limit_bytes` when decompressed.
        KafkaError: UNSUPPORTED_COMPRESSION_TYPE.
    """
    data = bytes(records_bytes(batch, limit_bytes))
    count = batch.count
    if not 0 <= count * RECORD_BYTES_MIN <= len(data):
        raise RemoteProtocolError(f"{count} records cannot lie in {len(data)} bytes")
    append_time = batch.max_timestamp if batch.attributes & ATTRIBUTES_LOG_APPEND_TIME else None
    base_offset, base_timestamp = batch.base_offset, batch.base_timestamp
    position = 0
    for number in range(count):
        try:
            position, timestamp_delta, offset_delta, key, value, headers, headers_count = (
                _read_record(data, position, headers_max)
            )
        except IndexError as error:
            raise RemoteProtocolError(f"malformed record {number} in {batch!r}: {error}") from None
        timestamp = base_timestamp + timestamp_delta if append_time is None else append_time
        yield Record(base_offset + offset_delta, timestamp, key, value, headers), headers_count
    if position != len(data):
        raise RemoteProtocolError(f"{len(data) - position} bytes after the records of {batch!r}")


_RawRecord = tuple[int, int, int, bytes | None, bytes | None, tuple[RecordHeader, ...], int]


def _read_record(data: bytes, position: int, headers_max: int) -> _RawRecord:
    """Reads the record at `position`. Returns the start of the next one, timestamp delta, offset delta, key, value,
    headers and the count of headers.
    """
    size, start = read_varint(data, position)
    end = start + size
    if size < RECORD_BYTES_MIN - 1 or end > len(data):
        raise RemoteProtocolError(f"record of {size} bytes, {len(data) - start} are left")
    timestamp_delta, position = read_varlong(data, start + 1)  # one byte of unused attributes
    offset_delta, position = read_varint(data, position)
    key, position = _read_sized(data, position, end)
    value, position = _read_sized(data, position, end)
    count = data[position]
    headers: tuple[RecordHeader, ...] = ()
    if count:
        headers, count, position = _read_headers(data, position, end, headers_max)
    else:
        position += 1
    if position != end:
        raise RemoteProtocolError(f"record of {size} bytes whose fields take {position - start}")
    return end, timestamp_delta, offset_delta, key, value, headers, count


def _read_sized(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    size, position = read_varint(data, position)
    if size < 0:
        if size != -1:
            raise RemoteProtocolError(f"size {size} in a record")
        return None, position
    if size > end - position:
        raise RemoteProtocolError(f"size {size} in a record, {end - position} bytes are left")
    return data[position : position + size], position + size


def _read_headers(
    data: bytes, position: int, end: int, headers_max: int
) -> tuple[tuple[RecordHeader, ...], int, int]:
    """Returns the first `headers_max` headers, the count of all headers, and the position after them."""
    count, position = read_varint(data, position)
    if not 0 <= count <= (end - position) // 2:  # a header takes at least two bytes
        raise RemoteProtocolError(f"{count} headers in {end - position} bytes")
    headers: list[RecordHeader] = []
    for _ in range(count):
        key, position = _read_sized(data, position, end)
        if key is None:
            raise RemoteProtocolError("a header without a key")
        value, position = _read_sized(data, position, end)
        if len(headers) < headers_max:
            headers.append(RecordHeader(key.decode(errors="replace"), value))
    return tuple(headers), count, position


class BatchHeader(TypedDict, total=False):
    """The header fields of a batch; `BatchBuilder.build` has the defaults."""

    base_offset: Offset
    leader_epoch: LeaderEpoch
    compression: Compression
    compression_level: int | None
    timestamp_type: TimestampType
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    base_sequence: int
    is_control: bool
    is_transactional: bool


class BatchBuilder:
    """A builder of a batch of one or more consecutive records; timestamp deltas count from the first record's
    timestamp.
    """

    __slots__ = ("_base_timestamp", "_count", "_last_delta", "_max_timestamp", "_payload")

    def __init__(self) -> None:
        self._payload = bytearray()
        self._count = 0
        self._last_delta = -1
        self._base_timestamp = self._max_timestamp = NO_TIMESTAMP

    def add(self, record: NewRecord, offset_delta: int | None = None) -> None:
        """Adds a record. `offset_delta`, ascending from 0, is for records that are not consecutive because of
        compaction.
        """
        timestamp_ms = record.timestamp_ms
        if not self._count:
            self._base_timestamp = self._max_timestamp = timestamp_ms
        elif timestamp_ms > self._max_timestamp:
            self._max_timestamp = timestamp_ms
        self._last_delta = self._last_delta + 1 if offset_delta is None else offset_delta
        _write_record(self._payload, record, timestamp_ms - self._base_timestamp, self._last_delta)
        self._count += 1

    def build(
        self,
        *,
        base_offset: Offset = Offset(0),
        leader_epoch: LeaderEpoch = NO_LEADER_EPOCH,
        compression: Compression = Compression.NONE,
        compression_level: int | None = None,
        timestamp_type: TimestampType = TimestampType.CREATE_TIME,
        producer_id: ProducerId = NO_PRODUCER_ID,
        producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH,
        base_sequence: int = -1,
        is_control: bool = False,
        is_transactional: bool = False,
    ) -> bytes:
        """Returns the batch of the added records."""
        assert self._count, "a batch without records has no offset"
        packed: Buffer = self._payload
        if compression:
            packed = compress(compression, packed, level=compression_level)
        attributes = (
            compression
            | ATTRIBUTES_LOG_APPEND_TIME * timestamp_type
            | ATTRIBUTES_TRANSACTIONAL * is_transactional
            | ATTRIBUTES_CONTROL * is_control
        )
        out = bytearray(HEADER_BYTES)
        HEADER.pack_into(
            out,
            0,
            base_offset,
            HEADER_BYTES - PREFIX_BYTES + len(packed),
            leader_epoch,
            MAGIC,
            0,
            attributes,
            self._last_delta,
            self._base_timestamp,
            self._max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            self._count,
        )
        out += packed
        CRC.pack_into(out, CRC_POSITION, crc32c.crc32c(memoryview(out)[CRC_START:]))
        return bytes(out)


def build_batch(
    records: Iterable[NewRecord],
    *,
    offset_deltas: Sequence[int] | None = None,
    **header: Unpack[BatchHeader],
) -> bytes:
    """Returns a batch of all the records; see `BatchBuilder`."""
    builder = BatchBuilder()
    for number, record in enumerate(records):
        builder.add(record, None if offset_deltas is None else offset_deltas[number])
    return builder.build(**header)


def rebuilt(
    batch: BatchView,
    body: Buffer,
    *,
    attributes: int,
    base_timestamp: int,
    max_timestamp: int,
    count: int,
) -> BatchView:
    """Returns `batch` with another body, compressed according to `attributes`; offsets, epochs and sequences do not
    change.
    """
    out = bytearray(HEADER_BYTES + len(body))
    HEADER.pack_into(
        out,
        0,
        batch.base_offset,
        len(out) - PREFIX_BYTES,
        batch.leader_epoch,
        batch.magic,
        0,
        attributes,
        batch.last_offset_delta,
        base_timestamp,
        max_timestamp,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        count,
    )
    out[HEADER_BYTES:] = body
    CRC.pack_into(out, CRC_POSITION, crc32c.crc32c(memoryview(out)[CRC_START:]))
    return BatchView(memoryview(out))


def _write_record(
    out: bytearray, record: NewRecord, timestamp_delta: int, offset_delta: int
) -> None:
    key, value, _, headers = record
    body = bytearray(1)  # attributes, unused
    body += VARINTS[timestamp_delta]
    body += VARINTS[offset_delta]
    body += VARINTS[-1 if key is None else len(key)]
    body += key or b""
    body += VARINTS[-1 if value is None else len(value)]
    body += value or b""
    body += VARINTS[len(headers)]
    for name, text in headers:
        data = name.encode()
        body += VARINTS[len(data)]
        body += data
        body += VARINTS[-1 if text is None else len(text)]
        body += text or b""
    out += VARINTS[len(body)]
    out += body
