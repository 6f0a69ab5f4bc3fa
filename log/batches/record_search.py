"""Search of a batch for the first record with a late enough timestamp, with only a piece of the batch in memory.

Bodies are decompressed and decoded piece by piece (`trimaran.log.batches.columns.decode_next`); only the head of a
record larger than a piece is decoded. Source: `FileRecords.searchForTimestamp` of Kafka, which decodes every record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from trimaran.log.batches.batch import ATTRIBUTES_LOG_APPEND_TIME, BatchView, Buffer
from trimaran.log.batches.columns import INT64_MAX, INT64_MIN, Columns, decode_next
from trimaran.log.batches.records import RECORD_BYTES_MIN, RECORDS_BYTES_MAX, records_in_pieces
from trimaran.log.codecs.compression import Compression
from trimaran.log.codecs.output import too_large
from trimaran.wire.buffers.primitives import read_varint, read_varlong
from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.identity import Offset

# The decompressed bytes of a piece: a millisecond of work.
PIECE_BYTES = 1 << 20
RECORDS_MAX = 10_000  # the records of a piece, each with 52 bytes of columns
_HEAD_BYTES_MAX = 5 + 1 + 10 + 5  # length, attributes, timestamp and offset delta


class FoundRecord(NamedTuple):
    """A found record: its timestamp and offset."""

    timestamp_ms: int
    offset: Offset


def find_record(
    batch: BatchView,
    timestamp_ms: int,
    start_offset: Offset,
    limit_bytes: int = RECORDS_BYTES_MAX,
) -> FoundRecord | None:
    """Finds the first record of a whole batch of v2 at or above `start_offset` with a timestamp of at least
    `timestamp_ms`.

    Later records are not examined.

    Raises:
        OutputTooLarge: the record is not within the first `limit_bytes` decompressed bytes.
        RemoteProtocolError: the records contradict the header.
        KafkaError: UNSUPPORTED_COMPRESSION_TYPE.
    """
    pieces = _within(_pieces(batch, limit_bytes), limit_bytes)
    return search_pieces(batch, pieces, timestamp_ms, start_offset)


def _pieces(batch: BatchView, limit_bytes: int) -> Iterator[Buffer]:
    if not batch.count:  # compaction leaves the header, which may be marked as compressed
        return iter(())
    # A block of snappy is decompressed in one step: 32 KiB from Java, the whole body from librdkafka.
    is_whole = batch.compression is Compression.SNAPPY
    return records_in_pieces(batch, limit_bytes if is_whole else PIECE_BYTES)


def _within(pieces: Iterable[Buffer], limit_bytes: int) -> Iterator[Buffer]:
    left = limit_bytes
    for piece in pieces:
        left -= len(piece)
        if left < 0:
            raise too_large(limit_bytes)
        yield piece


def search_pieces(
    batch: BatchView, pieces: Iterable[Buffer], timestamp_ms: int, start_offset: Offset
) -> FoundRecord | None:
    """Finds the record as `find_record` does; `pieces` are the decompressed records of `batch`."""
    left, to_skip = batch.count, 0
    rest: Buffer = b""
    for piece in pieces:
        skipped = min(to_skip, len(piece))
        to_skip -= skipped
        rest = b"".join((rest, memoryview(piece)[skipped:]))
        while left and rest:
            columns, end = decode_next(batch, rest, min(left, RECORDS_MAX))
            if len(columns):
                found = _first_of(columns, timestamp_ms, start_offset)
                left -= len(columns)
                rest = memoryview(rest)[end:]
            else:
                head = _head(batch, rest)
                if head is None:
                    break
                found, size = head
                if found.timestamp_ms < timestamp_ms or found.offset < start_offset:
                    found = None
                left -= 1
                to_skip, rest = size - len(rest), b""
            if found is not None:
                return found
        if not left and rest:
            raise RemoteProtocolError(f"bytes after the records of {batch!r}")
    if left or to_skip:
        raise RemoteProtocolError(f"{left} of {batch.count} records are not in {batch!r}")
    return None


def _first_of(columns: Columns, timestamp_ms: int, start_offset: Offset) -> FoundRecord | None:
    timestamps, offsets = columns.timestamp_ms, columns.offset
    if max(timestamps) < timestamp_ms or max(offsets) < start_offset:
        return None
    for timestamp, offset in zip(timestamps, offsets, strict=True):
        if timestamp >= timestamp_ms and offset >= start_offset:
            return FoundRecord(timestamp, Offset(offset))
    return None


def _head(batch: BatchView, data: Buffer) -> tuple[FoundRecord, int] | None:
    """Returns the record that begins `data` and extends beyond it, and the record's size; None if its head is not
    complete yet.
    """
    if len(data) < _HEAD_BYTES_MAX:
        return None
    head = bytes(memoryview(data)[:_HEAD_BYTES_MAX])
    size, start = read_varint(head, 0)
    timestamp_delta, position = read_varlong(head, start + 1)
    offset_delta, _ = read_varint(head, position)
    appended = batch.attributes & ATTRIBUTES_LOG_APPEND_TIME
    timestamp = batch.max_timestamp if appended else batch.base_timestamp + timestamp_delta
    is_in_batch = 0 <= offset_delta <= batch.last_offset_delta
    if size < RECORD_BYTES_MIN - 1 or not is_in_batch or not INT64_MIN <= timestamp <= INT64_MAX:
        raise RemoteProtocolError(f"malformed record in {batch!r}")
    return FoundRecord(timestamp, batch.base_offset + offset_delta), start + size
