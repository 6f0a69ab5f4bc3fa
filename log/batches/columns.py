"""Records of batches in bulk: decoded into columns, checked, or filtered, without a Python object per record.

The loops are in `trimaran.log.batches.columns_walk`: compiled to C if possible (`COMPILED`), otherwise the same source
is interpreted, about a hundred times slower. Both are tested against the plain decoder
`trimaran.log.batches.records.decode_records`. Bodies are the decompressed bytes after a batch's header
(`trimaran.log.batches.records.records_bytes`). The interpreter's lock is released while a body of more than 64 KiB is
walked.

Columns are `array.array`s, which numpy and Arrow wrap without a copy (`numpy.frombuffer`, `pyarrow.py_buffer`).
Memory: 52 bytes per record, which takes at least 7 bytes of a body; no memory is allocated for a count that the body
cannot hold.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from trimaran.log.batches.batch import ATTRIBUTES_LOG_APPEND_TIME, HEADER_BYTES, BatchView, Buffer
from trimaran.log.batches.columns_walk import COMPILED, Problem, Walker
from trimaran.log.batches.records import RECORD_BYTES_MIN, RECORDS_BYTES_MAX, records_bytes
from trimaran.log.batches.slice_copies import copy_slices
from trimaran.wire.buffers.primitives import read_varint
from trimaran.wire.errors import RemoteProtocolError

__all__ = [
    "COMPILED",
    "Columns",
    "HeaderColumns",
    "Kept",
    "LargestTimestamp",
    "MalformedRecords",
    "Problem",
    "check_records",
    "decode_bodies",
    "decode_columns",
    "decode_columns_within",
    "decode_headers",
    "decode_next",
    "decode_some",
    "retain",
]

INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1
DATA_BYTES_MAX = (1 << 31) - 1  # positions are int32, as in Arrow
_VARINT_BYTES_MAX = 5
# The growth of a record with a new timestamp delta: ten bytes for one delta, five for two.
_GROWTH_BYTES_MAX = 13

_WHY = {
    Problem.CUT_SHORT: "is cut short",
    Problem.RECORD_SIZE: "has a size that is not that of its fields",
    Problem.VARINT: "has a varint without end",
    Problem.SIZE: "has a size below -1 or beyond its end",
    Problem.HEADER_COUNT: "has a header count that it cannot hold",
    Problem.HEADER_KEY: "has a header without a key",
    Problem.TIMESTAMP_OVERFLOW: "has a timestamp beyond 64 bits",
    Problem.OFFSET_DELTA: "has an offset delta that is not its own",
    Problem.NULL_KEY: "has no key, the topic is compacted",
    Problem.TIMESTAMP_RANGE: "has a timestamp outside the topic's limits",
    Problem.TRAILING_BYTES: "would begin behind the last one: bytes are left over",
}


class MalformedRecords(RemoteProtocolError):
    """The record at `index` (from 0) contradicts its batch; `problem` is the reason."""

    def __init__(self, problem: Problem, index: int) -> None:
        super().__init__(f"record {index} {_WHY[problem]}")
        self.problem = problem
        self.index = index


class LargestTimestamp(NamedTuple):
    """The largest timestamp of a body and the offset delta of the first record that has it; both -1 if all timestamps
    are -1.
    """

    timestamp_ms: int
    offset_delta: int


class Columns:
    """The records of some batches, one element for each record; positions refer to `data`, the concatenated bodies.

    ```
    batch          int32   index of the batch in the sequence that was decoded
    offset         int64
    timestamp_ms   int64 the append time if the batch has it
    record_start   int32   where the record's length begins
    key_start      int32   key_size     int32, -1 null
    value_start    int32   value_size   int32, -1 null
    headers_start  int32   the first header, after the count
    headers_count  int32
    ```
    """

    __slots__ = (
        "batch",
        "data",
        "headers_count",
        "headers_start",
        "key_size",
        "key_start",
        "offset",
        "record_start",
        "timestamp_ms",
        "value_size",
        "value_start",
    )

    def __init__(self, data: Buffer, count: int) -> None:
        self.data = data
        long, short = _column("q", count), _column("i", count)
        self.offset, self.timestamp_ms = long, long[:]
        self.batch, self.record_start = short, short[:]
        self.key_start, self.key_size = short[:], short[:]
        self.value_start, self.value_size = short[:], short[:]
        self.headers_start, self.headers_count = short[:], short[:]

    def __len__(self) -> int:
        return len(self.offset)

    def cut(self, count: int) -> None:
        """Keeps only the first `count` records."""
        for name in self.__slots__:
            if name != "data":
                setattr(self, name, getattr(self, name)[:count])

    def key(self, row: int) -> bytes | None:
        start, size = self.key_start[row], self.key_size[row]
        return None if size < 0 else bytes(self.data[start : start + size])

    def value(self, row: int) -> bytes | None:
        start, size = self.value_start[row], self.value_size[row]
        return None if size < 0 else bytes(self.data[start : start + size])

    def keys(self) -> list[bytes | None]:
        """Returns copies of the keys of all rows, as `key` does for each."""
        return copy_slices(bytes(self.data), self.key_start, self.key_size)

    def values(self) -> list[bytes | None]:
        """Returns copies of the values of all rows, as `value` does for each."""
        return copy_slices(bytes(self.data), self.value_start, self.value_size)


class HeaderColumns(NamedTuple):
    """The headers of some records in order, one element for each header; positions as in `Columns`; value size -1 is
    null.
    """

    key_start: array[int]
    key_size: array[int]
    value_start: array[int]
    value_size: array[int]


@dataclass(frozen=True, slots=True)
class Kept:
    """The result of `retain`: the new body and the values for its header. With `count` 0 the deltas and the timestamp
    are -1.
    """

    body: memoryview
    count: int
    last_offset_delta: int  # the offset delta of the last record kept; the batch may end later
    max_timestamp_ms: int
    max_timestamp_offset_delta: int


def decode_columns(batches: Sequence[BatchView], limit_bytes: int = RECORDS_BYTES_MAX) -> Columns:
    """Returns all records of the batches, each decompressed to at most `limit_bytes`.

    Offset deltas may have gaps, left by compaction, but must lie within the batch.

    Raises:
        MalformedRecords: the records contradict their header.
        RemoteProtocolError: damaged compressed data, too much of it, or 2 GiB in all.
        KafkaError: UNSUPPORTED_COMPRESSION_TYPE.
    """
    return decode_bodies(batches, [records_bytes(batch, limit_bytes) for batch in batches])


def decode_bodies(batches: Sequence[BatchView], bodies: Sequence[Buffer]) -> Columns:
    """Decodes records as `decode_columns` does, but from decompressed bodies. Raises the same errors, except those of
    compression.
    """
    data = bodies[0] if len(bodies) == 1 else b"".join(bodies)
    starts = list(accumulate(map(len, bodies), initial=0))
    return _decode(data, batches, starts[:-1], starts[1:])


def decode_first(batch: BatchView, body: Buffer, count_max: int) -> Columns:
    """Returns the first records of a batch, at most `count_max`; `body` has all of them, decompressed. Later bytes are
    not examined.

    Raises:
        MalformedRecords: as `decode_columns` does.
    """
    _ensure_room(batch.count, len(body))
    count = min(batch.count, count_max)
    columns = Columns(body, count)
    walker = Walker(body)
    walker.write_to(columns)
    problem, record = walker.fill(
        0, len(body), 0, count, 0, batch.last_offset_delta, batch.base_timestamp, None
    )
    if problem and (problem != Problem.TRAILING_BYTES or count == batch.count):
        raise MalformedRecords(Problem(problem), record)
    return columns


def decode_next(batch: BatchView, data: Buffer, count_max: int) -> tuple[Columns, int]:
    """Returns the complete records at the start of `data`, at most `count_max`, and their end; more bytes may follow.

    There are no records if the first one extends beyond the data.

    Raises:
        MalformedRecords: a record within the data is malformed; its index is that in `data`.
    """
    columns = Columns(data, min(count_max, len(data) // RECORD_BYTES_MIN))
    walker = Walker(data)
    walker.write_to(columns)
    appended = batch.attributes & ATTRIBUTES_LOG_APPEND_TIME
    problem, whole = walker.fill(
        0,
        len(data),
        0,
        len(columns),
        batch.base_offset,
        min(batch.last_offset_delta, INT64_MAX - batch.base_offset),
        batch.base_timestamp,
        batch.max_timestamp if appended else None,
    )
    if not problem or problem == Problem.TRAILING_BYTES:
        whole = len(columns)
    end = _end_of_record(data, columns.record_start[whole - 1]) if whole else 0
    if problem and problem != Problem.TRAILING_BYTES and _is_whole_record(data, end):
        raise MalformedRecords(Problem(problem), whole)
    columns.cut(whole)
    return columns, end


def decode_some(batch: BatchView, body: Buffer, count_max: int) -> Iterator[Columns]:
    """Decodes one batch as `decode_bodies` does, in chunks of `count_max` records; positions refer to each chunk's
    `data`.
    """
    _ensure_room(batch.count, len(body))
    rest, left = memoryview(body), batch.count
    while left:
        columns, end = decode_next(batch, rest, min(left, count_max))
        if not len(columns):
            raise MalformedRecords(Problem.CUT_SHORT, batch.count - left)
        left -= len(columns)
        rest = rest[end:]
        yield columns
    if len(rest):
        raise MalformedRecords(Problem.TRAILING_BYTES, batch.count)


def _end_of_record(data: Buffer, start: int) -> int:
    size, begin = read_varint(memoryview(data), start)
    return begin + size


def _is_whole_record(data: Buffer, start: int) -> bool:
    """Whether the bytes that a record claims, or an invalid length, lie within the data."""
    try:
        return _end_of_record(data, start) <= len(data)
    except RemoteProtocolError:
        return len(data) - start >= _VARINT_BYTES_MAX


def decode_columns_within(
    data: Buffer, batches: Sequence[BatchView], starts: Sequence[int]
) -> Columns:
    """Decodes uncompressed batches as `decode_columns` does. Their bodies lie at `starts` in `data`, which is not
    copied.
    """
    ends = [start + batch.size - HEADER_BYTES for start, batch in zip(starts, batches, strict=True)]
    return _decode(data, batches, starts, ends)


def _decode(
    data: Buffer, batches: Sequence[BatchView], starts: Sequence[int], ends: Sequence[int]
) -> Columns:
    if len(data) > DATA_BYTES_MAX:
        raise RemoteProtocolError(f"{len(data)} bytes of records at once, decode fewer batches")
    for batch, start, end in zip(batches, starts, ends, strict=True):
        _ensure_room(batch.count, end - start)
    columns = Columns(data, sum(batch.count for batch in batches))
    walker = Walker(data)
    walker.write_to(columns)
    for index, (batch, start, end) in enumerate(zip(batches, starts, ends, strict=True)):
        appended = batch.attributes & ATTRIBUTES_LOG_APPEND_TIME
        problem, record = walker.fill(
            start,
            end,
            index,
            batch.count,
            batch.base_offset,
            min(batch.last_offset_delta, INT64_MAX - batch.base_offset),
            batch.base_timestamp,
            batch.max_timestamp if appended else None,
        )
        if problem:
            raise MalformedRecords(Problem(problem), record)
    return columns


def decode_headers(
    data: Buffer, headers_start: array[int], headers_count: array[int]
) -> HeaderColumns:
    """Returns the headers of the records, given their two columns (int32, of `Columns` over the same `data`)."""
    total = sum(headers_count)
    places = HeaderColumns(*(_column("i", total) for _ in range(4)))
    problem = Walker(data).headers(headers_start, headers_count, places)
    if problem:
        raise MalformedRecords(Problem(problem), 0)
    return places


def check_records(
    body: Buffer,
    count: int,
    base_timestamp: int,
    *,
    requires_keys: bool = False,
    timestamp_min_ms: int = INT64_MIN,
    timestamp_max_ms: int = INT64_MAX,
) -> LargestTimestamp:
    """Checks a body like Kafka's `LogValidator`: `count` whole records with the offset deltas 0, 1, … and no trailing
    bytes.

    A timestamp of -1 means none and is always within the limits.

    Raises:
        MalformedRecords: `problem` is NULL_KEY only if `requires_keys`, and TIMESTAMP_RANGE only if there are limits.
    """
    _ensure_room(count, len(body))
    problem, index, timestamp, delta = Walker(body).check(
        count, base_timestamp, requires_keys, timestamp_min_ms, timestamp_max_ms
    )
    if problem:
        raise MalformedRecords(Problem(problem), index)
    return LargestTimestamp(timestamp, delta)


def retain(
    body: Buffer,
    count: int,
    base_timestamp: int,
    keep: Buffer,
    *,
    new_base_timestamp: int | None = None,
) -> Kept:
    """Keeps the records with a nonzero byte in `keep`, which has one byte per record; offset deltas do not change.

    With `new_base_timestamp` (a delete horizon, KIP-534) timestamps stay the same and get new deltas; otherwise the
    bytes are copied.

    Raises:
        MalformedRecords: as in `check_records`, but offset deltas and keys are not checked.
    """
    if len(keep) != count:
        raise ValueError(f"{len(keep)} bytes say what to keep of {count} records")
    _ensure_room(count, len(body))
    shift = 0 if new_base_timestamp is None else new_base_timestamp - base_timestamp
    if not INT64_MIN < shift <= INT64_MAX:
        raise MalformedRecords(Problem.TIMESTAMP_OVERFLOW, 0)
    out = bytearray(len(body) + (_GROWTH_BYTES_MAX * count if shift else 0))
    problem, index, size, kept, last_delta, timestamp, delta = Walker(body).retain(
        keep, out, count, base_timestamp, shift
    )
    if problem:
        raise MalformedRecords(Problem(problem), index)
    return Kept(memoryview(out)[:size], kept, last_delta, timestamp, delta)


def _column(kind: str, count: int) -> array[int]:
    return array(kind, (0,)) * count


def _ensure_room(count: int, body_bytes: int) -> None:
    if not 0 <= count * RECORD_BYTES_MIN <= body_bytes:
        raise MalformedRecords(Problem.CUT_SHORT, max(0, body_bytes // RECORD_BYTES_MIN))
