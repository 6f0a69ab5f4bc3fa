"""A column as it says itself: name, type, unit, source and meaning; and rows of Python made into Arrow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

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
    cells: Callable[[Sequence[Any]], list[Any]] | None = None
    """Makes the cells of some rows, where rows are not tuples in the order of the columns."""


def schema_of(columns: Sequence[Column]) -> pa.Schema:
    return pa.schema([(column.name, column.kind) for column in columns])


def rows_to_arrow(
    rows: Sequence[tuple[Any, ...]], columns: Sequence[Column], wanted: Sequence[str]
) -> pa.RecordBatch:
    """Rows in the order of `columns` as Arrow, only the `wanted` columns; timestamps are milliseconds (None: null)."""
    index = {column.name: i for i, column in enumerate(columns)}
    places = [index[name] for name in wanted]
    arrays = []
    for at in places:
        cells = columns[at].cells
        values = [row[at] for row in rows] if cells is None else cells(rows)
        arrays.append(to_array(values, columns[at].kind))
    schema = schema_of([columns[at] for at in places])
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def to_array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Arrow of Python's values; timestamps are given in milliseconds."""
    return _timestamps(values) if kind == TIMESTAMP else pa.array(values, kind)


_MS_MAX = (1 << 63) // 1000 - 1  # what fits in Spark's microseconds


def _timestamps(milliseconds: Sequence[int | None]) -> pa.Array:
    """Null too where a record has none (-1), and where a broken clock wrote what no timestamp holds."""
    fitting = [
        None if ms is None or ms == -1 or not -_MS_MAX <= ms <= _MS_MAX else ms * 1000
        for ms in milliseconds
    ]
    return pa.array(fitting, pa.int64()).cast(TIMESTAMP)
