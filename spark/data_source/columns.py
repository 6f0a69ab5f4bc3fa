"""A column as it says itself: name, type, unit, source and meaning; and rows of Python made into Arrow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

TIMESTAMP = pa.timestamp("us", "UTC")
INT, LONG, STRING, BOOL = pa.int32(), pa.int64(), pa.string(), pa.bool_()
INTS, STRINGS = pa.list_(INT), pa.list_(STRING)


class Column(NamedTuple):
    """One column. `source`: the record (and field) that it is read from; empty where it is of our making."""

    name: str
    kind: pa.DataType
    doc: str
    source: str = ""
    unit: str = ""
    cells: Callable[[Any], Sequence[Any] | Repeated] | None = None
    """Makes the cells of some rows (as their table took them apart), where rows are not tuples in this order."""


def schema_of(columns: Sequence[Column]) -> pa.Schema:
    return pa.schema([(column.name, column.kind) for column in columns])


def rows_to_arrow(
    rows: Sequence[tuple[Any, ...]],
    columns: Sequence[Column],
    wanted: Sequence[str],
    apart: Callable[[Sequence[Any]], Any] | None = None,
) -> pa.RecordBatch:
    """Rows in the order of `columns` as Arrow, only the `wanted` columns; timestamps are milliseconds (None: null).

    Args:
        apart: takes rows apart for the `cells` of columns that have such.
    """
    index = {column.name: i for i, column in enumerate(columns)}
    places = [index[name] for name in wanted]
    schema = schema_of([columns[at] for at in places])
    if not rows:
        return pa.RecordBatch.from_pylist([], schema=schema)
    parts = rows if apart is None else apart(rows)
    arrays = []
    for at in places:
        cells = columns[at].cells
        values = [row[at] for row in rows] if cells is None else cells(parts)
        arrays.append(to_array(values, columns[at].kind))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def to_array(values: Sequence[Any] | Repeated, kind: pa.DataType) -> pa.Array:
    """Arrow of Python's values; timestamps are given in milliseconds."""
    if isinstance(values, Repeated):
        return to_array(values.values, kind).take(values.codes)
    if kind == TIMESTAMP:
        return _timestamps(values)
    if kind == INTS:
        return _lists(values, kind)
    return pa.array(values, kind)


class Codes(dict[Any, int]):
    """A number for each distinct value, from 0 in the order met."""

    def __missing__(self, value: Any) -> int:
        code = self[value] = len(self)
        return code

    def of(self, values: Iterable[Any], count: int) -> pa.Array:
        """The numbers of `count` values. Raises TypeError: one has no hash."""
        return pa.array(np.fromiter(map(self.__getitem__, values), np.int32, count))


class Repeated(NamedTuple):
    """A column that holds the same few values again and again: each once, and which of them each row has."""

    values: Sequence[Any]
    codes: pa.Array


def _lists(values: Sequence[Sequence[int] | None], kind: pa.DataType) -> pa.Array:
    """A column of replicas holds the same few again and again: each is converted once."""
    codes = Codes()
    try:
        each = codes.of(values, len(values))
    except TypeError:  # lists have no hash
        return pa.array(values, kind)
    return pa.array(list(codes), kind).take(each)


_MS_MAX = (1 << 63) // 1000 - 1  # what fits in Spark's microseconds


def microseconds(milliseconds: int | None) -> int | None:
    """Of a timestamp of Spark; None where a broken clock wrote what none holds."""
    if milliseconds is None or not -_MS_MAX <= milliseconds <= _MS_MAX:
        return None
    return milliseconds * 1000


def timestamps(
    milliseconds: Sequence[int] | np.ndarray[tuple[int], np.dtype[np.int64]],
    *,
    absent: int | None = None,
) -> pa.Array:
    """Kafka's milliseconds as Spark's microseconds, in UTC; null as in `microseconds`, and where they are `absent`."""
    ms = np.asarray(milliseconds, np.int64)
    null = (ms < -_MS_MAX) | (ms > _MS_MAX) | (False if absent is None else ms == absent)
    return pa.array(np.where(null, 0, ms) * 1000, pa.int64(), mask=null).cast(TIMESTAMP)


def _timestamps(values: Sequence[Any]) -> pa.Array:
    """A record without a time has -1."""
    return timestamps([-1 if one is None else one for one in values], absent=-1)
