"""Record batches to Arrow columns in bulk: one short Python step a record, everything else by numpy and Arrow.

The step finds where each record begins; then the varints of all records are read at once, and keys, values and headers are
gathered by Arrow's `take` over an array whose even elements are the wanted bytes and whose odd ones are what lies between.
Record layout: see `log.batch.BatchView`. Damage raises RemoteProtocolError, never gives short columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from log.batch import ATTRIBUTES_LOG_APPEND_TIME, RECORD_BYTES_MIN, BatchView, records_bytes
from wire.errors import RemoteProtocolError

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Flags = npt.NDArray[np.bool_]

VARLONG_BYTES_MAX = 10
PADDING = bytes(VARLONG_BYTES_MAX + 1)  # a varint that runs over the end is read, then refused


@dataclass(slots=True)
class Slices:
    """Places in the data: `size` -1 is null. Starts ascend."""

    start: Ints
    size: Ints


@dataclass(slots=True)
class Decoded:
    """The records of some batches, one element each; `headers_at` is where the header count begins."""

    data: bytes
    batch: Ints  # index of the batch that the record lies in
    offset: Ints
    timestamp_ms: Ints
    key: Slices
    value: Slices
    headers_at: Ints
    end: Ints

    def __len__(self) -> int:
        return len(self.offset)

    def keep(self, wanted: Flags) -> Decoded:
        """The records for which `wanted` is true."""
        if wanted.all():
            return self
        key = Slices(self.key.start[wanted], self.key.size[wanted])
        value = Slices(self.value.start[wanted], self.value.size[wanted])
        return Decoded(
            self.data,
            self.batch[wanted],
            self.offset[wanted],
            self.timestamp_ms[wanted],
            key,
            value,
            self.headers_at[wanted],
            self.end[wanted],
        )


def decode(batches: Sequence[BatchView], limit_bytes: int) -> Decoded:
    """All records of the batches, at the most `limit_bytes` of each decompressed.

    Raises:
        RemoteProtocolError: the records are not what the headers say.
        KafkaError: UNSUPPORTED_COMPRESSION_TYPE.
    """
    parts = [bytes(records_bytes(batch, limit_bytes)) for batch in batches]
    starts, ends = _boundaries(parts, batches)
    parts.append(PADDING)
    data = b"".join(parts)
    raw = np.frombuffer(data, np.uint8)
    batch = np.repeat(np.arange(len(batches)), [b.count for b in batches])
    timestamp_delta, at = read_varints(raw, starts + 1, ends)  # a byte of unused attributes
    offset_delta, at = read_varints(raw, at, ends)
    key, at = _read_slices(raw, at, ends)
    value, at = _read_slices(raw, at, ends)
    last_delta = np.array([b.last_offset_delta for b in batches], np.int64)[batch]
    _ensure(
        ((offset_delta >= 0) & (offset_delta <= last_delta)).all(), "an offset outside its batch"
    )
    offset = np.array([b.base_offset for b in batches], np.int64)[batch] + offset_delta
    return Decoded(
        data, batch, offset, _timestamps(batches, batch, timestamp_delta), key, value, at, ends
    )


def _timestamps(batches: Sequence[BatchView], batch: Ints, delta: Ints) -> Ints:
    appended = np.array([bool(b.attributes & ATTRIBUTES_LOG_APPEND_TIME) for b in batches])[batch]
    base = np.array([b.base_timestamp for b in batches], np.int64)[batch]
    largest = np.array([b.max_timestamp for b in batches], np.int64)[batch]
    stamps: Ints = np.where(appended, largest, base + delta)
    return stamps


def _boundaries(parts: Sequence[bytes], batches: Sequence[BatchView]) -> tuple[Ints, Ints]:
    """Start (behind the length) and end of every record, as positions in all parts joined."""
    starts: list[int] = []
    ends: list[int] = []
    shift = 0
    for data, batch in zip(parts, batches, strict=True):
        _ensure(batch.count * RECORD_BYTES_MIN <= len(data), f"too many records in {batch!r}")
        try:
            end = _walk(data, batch.count, shift, starts, ends)
        except IndexError:
            raise RemoteProtocolError(f"records are cut short in {batch!r}") from None
        _ensure(end == len(data), f"records of {batch!r} take {end} of {len(data)} bytes")
        shift += len(data)
    return np.array(starts, np.int64), np.array(ends, np.int64)


def _walk(data: bytes, count: int, shift: int, starts: list[int], ends: list[int]) -> int:
    """Appends the places of `count` records; gives the position behind the last. The only loop over single records."""
    position = 0
    add_start, add_end = starts.append, ends.append
    for _ in range(count):
        size = data[position]
        position += 1
        if size & 0x80:
            more = data[position]
            position += 1
            size = (size & 0x7F) | (more & 0x7F) << 7
            bits = 14
            while more & 0x80 and bits < 35:
                more = data[position]
                position += 1
                size |= (more & 0x7F) << bits
                bits += 7
        add_start(position + shift)
        if size & 1 or size < 2 * (RECORD_BYTES_MIN - 1):
            raise RemoteProtocolError(f"a record's size is {size >> 1 ^ -(size & 1)}")
        position += size >> 1
        add_end(position + shift)
    return position


def read_varints(raw: Bytes, at: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Zigzag varints of up to 64 bits at all the positions at once, and the positions behind them.

    Raises:
        RemoteProtocolError: one is longer than ten bytes or runs over its `end`.
    """
    if not len(at):
        return at, at
    _ensure((at < end).all(), "a record ends before its fields do")
    byte = raw[at]
    value = (byte & 0x7F).astype(np.uint64)
    at = at + 1
    open_ones = np.nonzero(byte & 0x80)[0]
    bits = 7
    while len(open_ones):
        _ensure(bits < 7 * VARLONG_BYTES_MAX, "a varint without end")
        byte = raw[at[open_ones]]
        value[open_ones] |= (byte & 0x7F).astype(np.uint64) << np.uint64(bits)
        at[open_ones] += 1
        open_ones = open_ones[(byte & 0x80) != 0]
        bits += 7
    _ensure((at <= end).all(), "a varint runs over its record's end")
    signed = (value >> np.uint64(1)).astype(np.int64) ^ -(value & np.uint64(1)).astype(np.int64)
    return signed, at


def _read_slices(raw: Bytes, at: Ints, end: Ints) -> tuple[Slices, Ints]:
    size, start = read_varints(raw, at, end)
    _ensure(((size >= -1) & (size <= end - start)).all(), "a size that its record cannot hold")
    return Slices(start, size), start + np.maximum(size, 0)


def gather(data: bytes, slices: Slices) -> pa.BinaryArray:
    """The bytes at the slices, which must ascend and not overlap."""
    count = len(slices.start)
    if not count:
        return pa.array([], pa.binary())
    edges = np.empty(2 * count, np.int32)
    edges[0::2] = slices.start
    edges[1::2] = slices.start + np.maximum(slices.size, 0)
    pieces = pa.BinaryArray.from_buffers(
        pa.binary(), 2 * count - 1, [None, pa.py_buffer(edges), pa.py_buffer(data)]
    )
    wanted = pa.array(np.arange(0, 2 * count, 2, dtype=np.int32), mask=slices.size < 0)
    return pieces.take(wanted)


HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def gather_headers(records: Decoded) -> pa.ListArray:
    """The headers, null where a record has none (as Spark's Kafka source gives them).

    Raises:
        RemoteProtocolError: malformed headers, or a key that is not UTF-8.
    """
    raw = np.frombuffer(records.data, np.uint8)
    counts, at = read_varints(raw, records.headers_at, records.end)
    _ensure(((counts >= 0) & (2 * counts <= records.end - at)).all(), "a header count")
    begins = np.concatenate([[0], np.cumsum(counts)])
    total = int(begins[-1])
    key = Slices(np.zeros(total, np.int64), np.zeros(total, np.int64))
    value = Slices(np.zeros(total, np.int64), np.zeros(total, np.int64))
    with_more = np.nonzero(counts)[0]
    at, index = at[with_more], 0
    while len(with_more):  # all first headers, then all second ones, …
        end, slot = records.end[with_more], begins[with_more] + index
        keys, at = _read_slices(raw, at, end)
        values, at = _read_slices(raw, at, end)
        _ensure((keys.size >= 0).all(), "a header without a key")
        key.start[slot], key.size[slot] = keys.start, keys.size
        value.start[slot], value.size[slot] = values.start, values.size
        index += 1
        still = counts[with_more] > index
        with_more, at = with_more[still], at[still]
    return _as_lists(records.data, begins, counts, key, value)


def _as_lists(data: bytes, begins: Ints, counts: Ints, key: Slices, value: Slices) -> pa.ListArray:
    try:
        keys = gather(data, key).cast(pa.string())
    except pa.ArrowInvalid as error:
        raise RemoteProtocolError(f"a header's key: {error}") from None
    pairs = pa.StructArray.from_arrays([keys, gather(data, value)], ["key", "value"])
    return pa.ListArray.from_arrays(
        pa.array(begins, pa.int32()), pairs, type=HEADERS, mask=pa.array(counts == 0)
    )


def _ensure(right: object, what: str) -> None:
    if not right:
        raise RemoteProtocolError(f"malformed records: {what}")
