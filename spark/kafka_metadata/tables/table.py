"""What a table says of itself: its columns with types, units and sources; options and documentation come from it."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from spark.kafka_log.batches import TIMESTAMP

if TYPE_CHECKING:
    from spark.kafka_metadata.options import MetadataOptions
    from spark.kafka_metadata.plan import MetadataTask

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


Read = Callable[["MetadataTask", tuple[str, ...], "MetadataOptions"], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class Table:
    """A table. `read` makes its rows from a task; `options` are those that act on it beside the common ones.

    `plan` tells how the log is cut into tasks: `node` (by size, of each node asked for), `whole` (one walk through one
    log), `events` (one walk, cut at snapshots), `batches` (as `node`, of control batches too).
    """

    name: str
    doc: str
    columns: tuple[Column, ...]
    read: Read
    plan: str
    options: frozenset[str]

    @property
    def schema(self) -> pa.Schema:
        return schema_of(self.columns)


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


@contextmanager
def without_collector() -> Iterator[None]:
    """Many rows are many tuples, which the collector of cycles would walk again and again: half of the time.

    For readers, which run in workers of Spark, end, and make no cycles.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


_MS_MAX = (1 << 63) // 1000 - 1  # what fits in Spark's microseconds


def _timestamps(milliseconds: Sequence[int | None]) -> pa.Array:
    """Null too where a record has none (-1), and where a broken clock wrote what no timestamp holds."""
    fitting = [
        None if ms is None or ms == -1 or not -_MS_MAX <= ms <= _MS_MAX else ms * 1000
        for ms in milliseconds
    ]
    return pa.array(fitting, pa.int64()).cast(TIMESTAMP)
