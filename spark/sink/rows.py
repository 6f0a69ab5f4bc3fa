"""The rows of a query as columns of records: the permitted columns, and their Arrow buffers.

Columns and checks are those of Spark's own sink (`KafkaWriter`, `KafkaRowWriter`); `timestamp` is one of its columns
that its manual does not name.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from trimaran.log.batches.row_writing import RowWriter, Slices
from trimaran.spark.data_source.write_failed import WriteFailed
from trimaran.spark.options import OptionError

NO_PARTITION = -(1 << 31)
TEXT, BYTES = "string", "binary"
# by column: the types that Spark's sink accepts, by Spark's names
TYPES: dict[str, tuple[str, ...]] = {
    "topic": (TEXT,),
    "key": (TEXT, BYTES),
    "value": (TEXT, BYTES),
    "headers": ("array<struct<key:string,value:binary>>",),
    "partition": ("int",),
    "timestamp": ("timestamp", "double"),
}


def check_schema(types: Sequence[tuple[str, str]], topic: str | None) -> None:
    """Checks the columns of a query, given as names and types of Spark. Raises OptionError."""
    found: dict[str, str] = {}
    for name, kind in types:
        if name in found:
            raise OptionError(f"kafka_log: two columns are called {name}")
        found[name] = kind
    if topic is None and "topic" not in found:
        raise OptionError(
            "kafka_log: there is no column topic: name the topic by the option topic, or in a column of that name"
        )
    if "value" not in found:
        raise OptionError("kafka_log: the required column value is missing")
    for name, kind in found.items():
        # If the option is set, Spark's sink ignores the column.
        if name == "topic" and topic is not None:
            continue
        allowed = TYPES.get(name)
        if allowed is not None and kind not in allowed:
            raise OptionError(
                f"kafka_log: column {name} is of type {kind}; it must be {' or '.join(allowed)}"
            )


class Rows(NamedTuple):
    """The rows of one Arrow batch. `topics` are the names that occur, `topic_of` has the number of each row's topic."""

    size: int
    topics: list[str]
    topic_of: memoryview | array[int]
    partitions: memoryview | array[int]
    keys: Slices
    values: Slices
    timestamps: memoryview | array[int]
    writer: RowWriter

    def key_at(self, row: int, batch: pa.RecordBatch) -> str:
        """Returns the key of a row for an error message."""
        if "key" not in batch.schema.names:
            return ""
        return f", key {str(batch.column('key')[row].as_py())[:80]!r}"


def rows_of(batch: pa.RecordBatch, topic: str | None, now_ms: int) -> Rows:
    """Returns the rows of a batch; those without a timestamp get `now_ms`. Raises WriteFailed: a row has no topic, or
    an impossible timestamp or header.
    """
    count = batch.num_rows
    names = batch.schema.names
    topics, topic_of = _topics(batch, topic)
    keys = _slices(batch.column("key")) if "key" in names else _nulls(count)
    values = _slices(batch.column("value"))
    partitions = (
        _ints(pc.fill_null(batch.column("partition"), pa.scalar(NO_PARTITION, pa.int32())), "i")
        if "partition" in names
        else array("i", (NO_PARTITION,)) * count
    )
    timestamps = (
        _timestamps(batch.column("timestamp"), now_ms)
        if "timestamp" in names
        else array("q", (now_ms,)) * count
    )
    headers = _headers(batch.column("headers")) if "headers" in names else (None,) * 4
    writer = RowWriter(keys, values, timestamps, *headers)
    return Rows(count, topics, topic_of, partitions, keys, values, timestamps, writer)


def _topics(batch: pa.RecordBatch, topic: str | None) -> tuple[list[str], memoryview | array[int]]:
    if topic is not None:
        return [topic], array("i", (0,)) * batch.num_rows
    column = batch.column("topic")
    if column.null_count:
        row = pc.index(pc.is_null(column), True).as_py()
        raise WriteFailed(
            f"row {row} of a batch has a null topic: filter such rows, or set the option topic, which is for all rows"
        )
    encoded = column.dictionary_encode()
    return encoded.dictionary.to_pylist(), _ints(encoded.indices, "i")


def _ints(column: pa.Array, kind: Literal["i", "q"]) -> memoryview:
    """Returns the values of a column of integers without nulls."""
    data = column.buffers()[1]
    if not len(column):
        return memoryview(array(kind))
    numbers: memoryview = memoryview(data).cast("B").cast(kind)
    return numbers[column.offset : column.offset + len(column)]


def _nulls(count: int) -> Slices:
    return Slices(b"", array("i", (0,)) * count, array("i", (-1,)) * count)


def _slices(column: pa.Array) -> Slices:
    if pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type):
        column = column.cast(pa.binary())
    count = len(column)
    if not count:
        return _nulls(0)
    _, offsets, data = column.buffers()
    starts = memoryview(offsets).cast("B").cast("i")[column.offset : column.offset + count]
    sizes = _ints(pc.fill_null(pc.binary_length(column), -1), "i")
    return Slices(b"" if data is None else memoryview(data).cast("B"), starts, sizes)


def _timestamps(column: pa.Array, now_ms: int) -> memoryview:
    if pa.types.is_floating(column.type):
        column = pc.cast(pc.multiply(column, 1e6), pa.int64(), safe=False)
    micros = (
        pc.cast(pc.cast(column, pa.timestamp("us", column.type.tz)), pa.int64())
        if (pa.types.is_timestamp(column.type))
        else column
    )
    earliest = pc.min(micros).as_py()
    if earliest is not None and earliest <= -1000:
        row = pc.index(micros, earliest).as_py()
        raise WriteFailed(
            f"row {row} of a batch has the timestamp {column[row]}: a record's timestamp is null, or from 1970 on"
        )
    return _ints(pc.fill_null(pc.divide(micros, 1000), now_ms), "q")


def _headers(column: pa.Array) -> tuple[Any, Any, Slices, Slices]:
    """Returns starts and counts of the headers of each row, their names and their values."""
    count = len(column)
    if pa.types.is_large_list(column.type):
        column = column.cast(pa.list_(column.type.value_type))
    starts = _ints(column.offsets, "i")[:count]
    counts = _ints(pc.fill_null(pc.list_value_length(column), 0), "i")
    pairs = column.values
    names, texts = pairs.field(0), pairs.field(1)
    # A header that is null, or has no name, is also an error in Spark's sink.
    used = column.flatten()
    if used.null_count or used.field(0).null_count:
        raise WriteFailed("a row of a batch has a header without a key")
    return starts, counts, _slices(names), _slices(texts)
