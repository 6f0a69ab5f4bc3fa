"""Converts record batches to Arrow columns: `trimaran.log.batches.columns` finds the positions, and Arrow gathers keys,
values and headers.

Arrays of numbers share the buffers of the columns; bytes are gathered by Arrow's `take` over an array whose even
elements are the wanted ones and whose odd elements are the bytes between them.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trimaran.log.batches.batch import BatchView, Buffer
from trimaran.log.batches.columns import Columns, decode_bodies, decode_headers, decode_next
from trimaran.log.batches.records import records_in_pieces
from trimaran.log.codecs.output import OutputTooLarge
from trimaran.wire.errors import RemoteProtocolError

Ints = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]


@dataclass(slots=True)
class ByteSlices:
    """Slices of the data in ascending order; `size` -1 is null."""

    start: Int32s
    size: Int32s

    def keep(self, wanted: Flags | slice) -> ByteSlices:
        return ByteSlices(self.start[wanted], self.size[wanted])


@dataclass(slots=True)
class DecodedRecords:
    """The records of some batches, one element each; `headers_start` is the position after the header count."""

    data: Buffer
    batch: Int32s  # index of the record's batch
    offset: Ints
    timestamp_ms: Ints
    key: ByteSlices
    value: ByteSlices
    headers_start: Int32s
    headers_count: Int32s

    def __len__(self) -> int:
        return len(self.offset)

    def keep(self, wanted: Flags) -> DecodedRecords:
        """Returns the records for which `wanted` is true."""
        return self if wanted.all() else self._picked(wanted)

    def pieces(self, bytes_max: int) -> Iterator[DecodedRecords]:
        """Yields the records in order, in pieces whose keys and values take about `bytes_max`, at least one record
        each.
        """
        ends = np.cumsum(
            np.maximum(self.key.size, 0).astype(np.int64) + np.maximum(self.value.size, 0)
        )
        start = 0
        while start < len(self):
            before = ends[start - 1] if start else 0
            end = max(start + 1, int(np.searchsorted(ends, before + bytes_max, "right")))
            yield self if end - start == len(self) else self._picked(slice(start, end))
            start = end

    def _picked(self, which: Flags | slice) -> DecodedRecords:
        return DecodedRecords(
            self.data,
            self.batch[which],
            self.offset[which],
            self.timestamp_ms[which],
            self.key.keep(which),
            self.value.keep(which),
            self.headers_start[which],
            self.headers_count[which],
        )


def decode(batches: Sequence[BatchView], bodies: Sequence[Buffer]) -> DecodedRecords:
    """Decodes all records of the batches; `bodies` are their decompressed records.

    Raises:
        RemoteProtocolError: the records do not match the headers.
    """
    return decoded(decode_bodies(batches, bodies))


def decoded(columns: Columns) -> DecodedRecords:
    """Returns the columns as numpy arrays, without a copy."""
    return DecodedRecords(
        columns.data,
        _int32s(columns.batch),
        np.frombuffer(columns.offset, np.int64),
        np.frombuffer(columns.timestamp_ms, np.int64),
        ByteSlices(_int32s(columns.key_start), _int32s(columns.key_size)),
        ByteSlices(_int32s(columns.value_start), _int32s(columns.value_size)),
        _int32s(columns.headers_start),
        _int32s(columns.headers_count),
    )


def _int32s(column: array[int]) -> Int32s:
    return np.frombuffer(column, np.int32)


def gather(data: Buffer, slices: ByteSlices) -> pa.BinaryArray:
    """Returns the bytes of the slices, which must ascend and not overlap."""
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


def gather_headers(records: DecodedRecords) -> pa.ListArray:
    """Returns the headers, null for a record without any, as in Spark's Kafka source.

    Raises:
        RemoteProtocolError: a key is not UTF-8.
    """
    counts = records.headers_count
    if not counts.any():
        return pa.nulls(len(counts), HEADERS)
    places = decode_headers(records.data, _array(records.headers_start), _array(counts))
    key = ByteSlices(_int32s(places.key_start), _int32s(places.key_size))
    value = ByteSlices(_int32s(places.value_start), _int32s(places.value_size))
    try:
        keys = gather(records.data, key).cast(pa.string())
    except pa.ArrowInvalid as error:
        raise RemoteProtocolError(f"a header's key: {error}") from None
    pairs = pa.StructArray.from_arrays([keys, gather(records.data, value)], ["key", "value"])
    begins = np.concatenate([[0], np.cumsum(counts)])
    return pa.ListArray.from_arrays(
        pa.array(begins, pa.int32()), pairs, type=HEADERS, mask=pa.array(counts == 0)
    )


def _array(numbers: Int32s) -> array[int]:
    return array("i", numbers.tobytes())


LARGE_BYTES = 32 << 20  # bytes of decompressed records; a larger batch is read piece by piece
PIECE_BYTES = 8 << 20  # bytes of a piece
RECORDS_MAX = 50_000  # of a piece: a megabyte holds 150,000 records of seven bytes, and each takes 52 bytes of columns


class RecordTooLarge(RemoteProtocolError):
    """A record, or a block of snappy that may contain it, is larger than `maxBatchBytes`."""


def decode_in_pieces(batch: BatchView, record_bytes_max: int) -> Iterator[DecodedRecords]:
    """Yields the records of a v2 batch in order.

    Raises:
        RecordTooLarge: a record does not fit into the limit.
        RemoteProtocolError: the records do not match the header; earlier ones may have been yielded.
    """
    rest: Buffer = b""
    left = batch.count
    pieces = records_in_pieces(batch, PIECE_BYTES)
    try:
        for piece in pieces:
            rest = b"".join((rest, piece))
            while left:
                columns, end = decode_next(batch, rest, min(left, RECORDS_MAX))
                if not len(columns):
                    break
                yield decoded(columns)
                left -= len(columns)
                rest = memoryview(rest)[end:]
            if len(rest) > record_bytes_max:
                raise too_large(f"record {batch.count - left}", record_bytes_max)
    except OutputTooLarge:
        raise too_large("a block of snappy", PIECE_BYTES) from None
    if left or rest:
        what = f"{left} of its {batch.count} records are not there" if left else "bytes are left"
        raise RemoteProtocolError(f"{what} behind record {batch.count - left - 1}")


def too_large(what: str, bytes_max: int) -> RecordTooLarge:
    return RecordTooLarge(
        f"{what} has more than {bytes_max:,} bytes; raise maxBatchBytes, and the memory of executors with it"
    )
