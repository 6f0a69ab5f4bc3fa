"""Columns of tables (name, type, value, text, source and unit), and their values as Arrow."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from trimaran.wire.identity import NO_TIMESTAMP

TIMESTAMP = pa.timestamp("us", "UTC")
INT, LONG, STRING, BOOL = pa.int32(), pa.int64(), pa.string(), pa.bool_()
INTS, STRINGS = pa.list_(INT), pa.list_(STRING)

field = attrgetter  # returns the function for a column that is a field of the row, such as field("moment.offset")


class Column(NamedTuple):
    """Declares a column of a table once: its type, its text in the documentation, and its value in a row.

    Args:
        value: takes a row and returns its cell; None is null. Timestamps are milliseconds for `rows_to_arrow`, and
            Spark's microseconds in levels of `kafka_log` that make their own arrays. In tables that are built column by
            column it takes a chunk of records and returns an Arrow array.
        source: the record (and field) from which the value is read; empty if the table computes it.
        shared: takes a row and returns a hashable part of it that many rows have in common. `value` then takes that
            part, and is called once for each distinct one.
    """

    name: str
    kind: pa.DataType
    value: Callable[..., Any]
    doc: str = ""
    source: str = ""
    unit: str = ""
    shared: Callable[[Any], Hashable] | None = None


def schema_of(columns: Iterable[Column]) -> pa.Schema:
    return pa.schema([(column.name, column.kind) for column in columns])


def rows_to_arrow(
    rows: Sequence[Any], columns: Iterable[Column], wanted: Sequence[str]
) -> pa.RecordBatch:
    """Returns the `wanted` columns of the rows, in that order."""
    by_name = {column.name: column for column in columns}
    chosen = [by_name[name] for name in wanted]
    codes: dict[Callable[[Any], Hashable], tuple[Codes, pa.Array]] = {}
    arrays = []
    for column in chosen:
        if column.shared is None:
            arrays.append(to_array(list(map(column.value, rows)), column.kind))
            continue
        if column.shared not in codes:
            distinct = Codes()
            codes[column.shared] = distinct, distinct.of(map(column.shared, rows), len(rows))
        distinct, each = codes[column.shared]
        arrays.append(to_array(list(map(column.value, distinct)), column.kind).take(each))
    return pa.RecordBatch.from_arrays(arrays, schema=schema_of(chosen))


def to_array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Converts Python values to Arrow; timestamps are in milliseconds."""
    if kind == TIMESTAMP:
        return _timestamps(values)
    if kind == INTS:
        return _lists(values, kind)
    return pa.array(values, kind)


class Codes(dict[Any, int]):
    """Numbers distinct values from 0, in the order of their first occurrence."""

    def __missing__(self, value: Any) -> int:
        code = self[value] = len(self)
        return code

    def of(self, values: Iterable[Any], count: int) -> pa.Array:
        """Returns the numbers of `count` values. Raises TypeError for a value without a hash."""
        return pa.array(np.fromiter(map(self.__getitem__, values), np.int32, count))


def _lists(values: Sequence[Sequence[int] | None], kind: pa.DataType) -> pa.Array:
    """Converts each distinct list once: a column of replicas repeats a few lists."""
    codes = Codes()
    try:
        each = codes.of(values, len(values))
    except TypeError:  # lists are not hashable
        return pa.array(values, kind)
    return pa.array(list(codes), kind).take(each)


_MS_MAX = (1 << 63) // 1000 - 1  # the range of Spark's microseconds


def microseconds(milliseconds: int | None) -> int | None:
    """Returns the timestamp in Spark's microseconds; None if a broken clock wrote a time that does not fit."""
    if milliseconds is None or not -_MS_MAX <= milliseconds <= _MS_MAX:
        return None
    return milliseconds * 1000


def timestamps(
    milliseconds: Sequence[int] | np.ndarray[tuple[int], np.dtype[np.int64]],
    *,
    absent: int | None = None,
) -> pa.Array:
    """Converts Kafka's milliseconds to Spark's microseconds, in UTC; null as in `microseconds`, and for `absent`."""
    ms = np.asarray(milliseconds, np.int64)
    null = (ms < -_MS_MAX) | (ms > _MS_MAX) | (False if absent is None else ms == absent)
    return pa.array(np.where(null, 0, ms) * 1000, pa.int64(), mask=null).cast(TIMESTAMP)


def _timestamps(values: Sequence[Any]) -> pa.Array:
    """Converts a column of timestamps; a record without a time has -1."""
    return timestamps(
        [NO_TIMESTAMP if value is None else value for value in values], absent=NO_TIMESTAMP
    )
