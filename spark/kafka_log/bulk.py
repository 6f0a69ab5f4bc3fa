"""Record batches to Arrow columns: `trimaran.log.batches.columns` finds everything, Arrow gathers keys, values and
headers.

Arrays of numbers lie on the columns' own buffers; bytes are gathered by Arrow's `take` over an array whose even
elements are the wanted ones and whose odd ones are what lies between.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trimaran.log.batches.batch import BatchView, Buffer
from trimaran.log.batches.columns import Columns, decode_bodies, decode_headers
from trimaran.wire.errors import RemoteProtocolError

Ints = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]


@dataclass(slots=True)
class Slices:
    """Places in the data: `size` -1 is null. Starts ascend."""

    start: Int32s
    size: Int32s

    def keep(self, wanted: Flags | slice) -> Slices:
        return Slices(self.start[wanted], self.size[wanted])


@dataclass(slots=True)
class Decoded:
    """The records of some batches, one element each; `headers_start` is behind the header count."""

    data: Buffer
    batch: Int32s  # index of the batch that the record lies in
    offset: Ints
    timestamp_ms: Ints
    key: Slices
    value: Slices
    headers_start: Int32s
    headers_count: Int32s

    def __len__(self) -> int:
        return len(self.offset)

    def keep(self, wanted: Flags) -> Decoded:
        """The records for which `wanted` is true."""
        return self if wanted.all() else self._picked(wanted)

    def pieces(self, bytes_max: int) -> Iterator[Decoded]:
        """The records in order, in pieces whose keys and values take about `bytes_max`; one record at the least."""
        ends = np.cumsum(
            np.maximum(self.key.size, 0).astype(np.int64) + np.maximum(self.value.size, 0)
        )
        start = 0
        while start < len(self):
            before = ends[start - 1] if start else 0
            end = max(start + 1, int(np.searchsorted(ends, before + bytes_max, "right")))
            yield self if end - start == len(self) else self._picked(slice(start, end))
            start = end

    def _picked(self, which: Flags | slice) -> Decoded:
        return Decoded(
            self.data,
            self.batch[which],
            self.offset[which],
            self.timestamp_ms[which],
            self.key.keep(which),
            self.value.keep(which),
            self.headers_start[which],
            self.headers_count[which],
        )


def decode(batches: Sequence[BatchView], bodies: Sequence[Buffer]) -> Decoded:
    """All records of the batches, whose decompressed records are the `bodies`.

    Raises:
        RemoteProtocolError: the records are not what the headers say.
    """
    return decoded(decode_bodies(batches, bodies))


def decoded(columns: Columns) -> Decoded:
    """Columns as numpy sees them, without a copy."""
    return Decoded(
        columns.data,
        _int32s(columns.batch),
        np.frombuffer(columns.offset, np.int64),
        np.frombuffer(columns.timestamp_ms, np.int64),
        Slices(_int32s(columns.key_start), _int32s(columns.key_size)),
        Slices(_int32s(columns.value_start), _int32s(columns.value_size)),
        _int32s(columns.headers_start),
        _int32s(columns.headers_count),
    )


def _int32s(column: array[int]) -> Int32s:
    return np.frombuffer(column, np.int32)


def gather(data: Buffer, slices: Slices) -> pa.BinaryArray:
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
        RemoteProtocolError: a key that is not UTF-8.
    """
    counts = records.headers_count
    if not counts.any():
        return pa.nulls(len(counts), HEADERS)
    places = decode_headers(records.data, _array(records.headers_start), _array(counts))
    key = Slices(_int32s(places.key_start), _int32s(places.key_size))
    value = Slices(_int32s(places.value_start), _int32s(places.value_size))
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
