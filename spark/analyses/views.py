"""The views that analyses read, in either engine: made once with the columns that any analysis needs, and shared."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from trimaran.spark.analyses.analysis import SECONDS_MAX, Analysis, DataFrame, run
from trimaran.spark.in_process import reading
from trimaran.spark.origins.origin import DataUnreadable
from trimaran.spark.sources import VIEWS
from trimaran.wire.later import imported_later

if TYPE_CHECKING:
    import pyarrow as pa
    import pyspark.sql
    from pyspark.sql import SparkSession

    from trimaran.spark.data_source import schemas
    from trimaran.spark.in_process.database import Database
else:
    pa = imported_later("pyarrow")
    schemas = imported_later("trimaran.spark.data_source.schemas")

# The column with the time of a row, by view, for `since_ms`.
TIMES = {
    "records": "timestamp",
    "batches": "max_timestamp",
    "metadata_records": "timestamp",
    "metadata_batches": "base_timestamp",
    "isr_changes": "ts",
    "leader_changes": "ts",
    "config_history": "ts",
    "acl_history": "ts",
    "topic_history": "ts",
    "feature_history": "ts",
    "voter_history": "ts",
    "group_offsets": "timestamp",
    "group_members": "timestamp",
    "transactions": "timestamp",
    "partition_history": "to_ts",
    "broker_history": "to_ts",
    "quorum_epochs": "to_ts",
}
LASTING = "to_ts"  # a row with this column is an interval; only the part after the start of the report counts
# not a log: the state of ZooKeeper, in a file next to the directories of the nodes
ZNODES = "znodes"
ZNODES_FILE = "znodes.json"

Columns = dict[str, str]  # types as Spark writes them, by name
Load = Callable[[str, Columns], DataFrame]  # the rows of a view


class Views:
    """The tables by view. Each is loaded once, with all columns that any analysis reads, and cached, as is the error if
    a view cannot be read.

    Args:
        analyses: all analyses that will read views.
        since_ms: earlier rows are omitted; None omits nothing.
        apart: views that are loaded for each analysis, with its own columns.
    """

    def __init__(
        self,
        analyses: Sequence[Analysis],
        load: Load,
        since_ms: int | None,
        apart: frozenset[str] = frozenset(),
    ) -> None:
        self._load = load
        self._since_ms = since_ms
        self._apart = apart
        self._columns: dict[str, Columns] = {}
        for analysis in analyses:
            for view, schema in analysis.views.items():
                self._columns.setdefault(view, {}).update(columns_of(schema))
        self._tables: dict[str, DataFrame | Exception] = {}

    def table(self, analysis: Analysis, view: str) -> DataFrame:
        """Returns a view's rows. Raises the exceptions of the engine's `load`."""
        if view in self._apart:
            return self._made(view, columns_of(analysis.views[view]))
        if view not in self._tables:
            try:
                self._tables[view] = self._made(view, self._columns[view])
            except Exception as error:  # noqa: BLE001 - raised again for each analysis that asks
                self._tables[view] = error
        found = self._tables[view]
        if isinstance(found, Exception):
            raise found
        return found

    def _made(self, view: str, columns: Columns) -> DataFrame:
        time, since_ms = TIMES.get(view), self._since_ms
        if since_ms is None or time is None:
            return lengths_that_can_be(self._load(view, columns), columns)
        needed = {time: "timestamp"}
        if time == LASTING:
            needed["from_ts"] = "timestamp"
        columns = {**columns, **needed}
        rows = run(_since_sql(time, since_ms, columns), rows=self._load(view, columns))
        return lengths_that_can_be(rows, columns)


def columns_of(schema: str) -> Columns:
    """Returns the names and types in a text such as `a int, b array<struct<x: int>>`."""
    columns, depth, start = {}, 0, 0
    for at, letter in enumerate(schema + ","):
        depth += (letter == "<") - (letter == ">")
        if letter == "," and not depth:
            name, _, kind = schema[start:at].strip().partition(" ")
            columns[name] = kind
            start = at + 1
    return columns


def arrow_schema(columns: Columns) -> pa.Schema:
    """Returns the columns of a view with Arrow's types."""
    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    kinds = {
        "string": pa.string(),
        "binary": pa.binary(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "double": pa.float64(),
        "boolean": pa.bool_(),
        "timestamp": pa.timestamp("us", "UTC"),
        "array<int>": pa.list_(pa.int32()),
        "array<string>": pa.list_(pa.string()),
        "array<struct<key: string, value: binary>>": pa.list_(header),
    }
    return pa.schema([(name, kinds[kind]) for name, kind in columns.items()])


def lengths_that_can_be(rows: DataFrame, columns: Columns) -> DataFrame:
    """Sets the length of an interval to null if one of its clocks is years off, since it would dominate every sum."""
    if "seconds" not in columns:
        return rows
    seconds = f"CASE WHEN seconds <= {SECONDS_MAX} THEN seconds END"
    return run(_select(columns, {"seconds": seconds}), rows=rows)


def _select(columns: Columns, changed: Columns) -> str:
    each = (f"{changed[name]} AS {name}" if name in changed else f"`{name}`" for name in columns)
    return f"SELECT {', '.join(each)} FROM {{rows}}"


def _since_sql(time: str, since_ms: int, columns: Columns) -> str:
    """Returns the SQL that leaves out earlier rows and clips intervals that began before `since_ms`."""
    changed = {}
    if time == LASTING:
        changed["from_ts"] = (
            f"CASE WHEN from_ts < timestamp_millis({since_ms}) THEN timestamp_millis({since_ms}) ELSE from_ts END"
        )
        before = f"greatest(0, {since_ms} - unix_millis(from_ts)) / 1000D"
        changed["seconds"] = f"seconds - {before}"
    # rows without an end count, and so do rows without a time (-1 in data logs)
    millis = f"unix_millis({time})"
    where = f"{time} IS NULL OR {millis} < 0 OR {millis} >= {since_ms}"
    return f"{_select(columns, changed)} WHERE {where}"


def in_this_process(database: Database, data: Path) -> Load:
    """Returns a loader of tables of the database, which together have a bound.

    It raises TooLarge, DataUnreadable and OptionError.
    """
    used = 0

    def load(view: str, columns: Columns) -> DataFrame:
        nonlocal used
        if view == ZNODES:
            rows = _znodes(data / ZNODES_FILE, columns)
        else:
            schema = schemas.spark_schema(arrow_schema(columns))
            rows = reading.read_view(view, schema, data, reading.IN_PROCESS_BYTES - used)
        used += rows.nbytes
        return database.table(rows)

    return load


def in_spark(spark: SparkSession, data: Path) -> Callable[[str, Columns], pyspark.sql.DataFrame]:
    """Returns a loader of DataFrames; Spark reads them when a query runs. It raises PySparkException."""

    def load(view: str, columns: Columns) -> pyspark.sql.DataFrame:
        if view == ZNODES:
            return spark.createDataFrame(_znodes(data / ZNODES_FILE, columns))
        source, options = VIEWS[view]
        schema = ", ".join(f"{name} {kind}" for name, kind in columns.items())
        return spark.read.format(source).options(**options).schema(schema).load(str(data))

    return load


def _znodes(path: Path, columns: Columns) -> pa.Table:
    """Returns the znodes of a file. Raises DataUnreadable if there is no such file, or it has no znodes."""
    try:
        return pa.Table.from_pylist(json.loads(path.read_bytes()), arrow_schema(columns))
    except FileNotFoundError:
        why = f"there is no {path}"
    except (ValueError, TypeError, AttributeError) as error:
        why = f"{path} has no znodes: {error}"
    raise DataUnreadable(f"{why}; trimaran zk tree -o json writes its rows")
