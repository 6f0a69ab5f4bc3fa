"""Reads a view of node directories into an Arrow table, in this process, as long as it is small enough."""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike
from typing import TYPE_CHECKING, cast

from trimaran.spark.in_process.database import TooLarge
from trimaran.spark.kafka_metadata.table import without_collector
from trimaran.spark.origins.directories.file_range import FileRange
from trimaran.spark.sources import VIEWS
from trimaran.wire.later import imported_later

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import DataSource, InputPartition
    from pyspark.sql.pandas import types as spark_types
    from pyspark.sql.types import StructType

    from trimaran.spark.kafka_log import source as kafka_log
    from trimaran.spark.kafka_metadata import source as kafka_metadata
else:
    pa = imported_later("pyarrow")
    spark_types = imported_later("pyspark.sql.pandas.types")
    kafka_log = imported_later("trimaran.spark.kafka_log.source")
    kafka_metadata = imported_later("trimaran.spark.kafka_metadata.source")

# The maximum size of all tables of a run, and of the stored records from which one table is built. With the memory of a
# query a process stays below 4 GiB.
IN_PROCESS_BYTES = 1 << 30

# The option of views whose tables contain all bytes of their files.
LEVEL = ("level", "records")


def read_view(view: str, schema: StructType, path: str | PathLike[str], bytes_max: int) -> pa.Table:
    """Returns columns of a view of `VIEWS`; times are in UTC and have no zone.

    Raises:
        TooLarge: the table, or the stored records to read for it, take more than `bytes_max`. DataUnreadable,
        OptionError: raised by the sources.
    """
    reader = _source(view, path).reader(schema)
    tasks = reader.partitions()
    if LEVEL in VIEWS[view][1].items() and (stored := sum(map(_stored_bytes, tasks))) > bytes_max:
        raise TooLarge(f"the records take {stored:,} bytes, more than {bytes_max:,}")
    batches, size = [], 0
    with without_collector():
        for task in tasks:
            for batch in cast("Iterator[pa.RecordBatch]", reader.read(task)):
                size += batch.nbytes
                if size > bytes_max:
                    raise TooLarge(f"the table {view} takes more than {bytes_max:,} bytes")
                batches.append(batch)
    kept = batches[0].schema if batches else spark_types.to_arrow_schema(schema, timezone="UTC")
    return without_zones(pa.Table.from_batches(batches, kept))


def schema_of_view(view: str, path: str | PathLike[str]) -> StructType:
    """Returns the columns that a view has in SQL. Raises OptionError."""
    return cast("StructType", _source(view, path).schema())


def _source(view: str, path: str | PathLike[str]) -> DataSource:
    name, options = VIEWS[view]
    given = {**options, "path": str(path)}
    if name == "kafka_log":
        return kafka_log.KafkaLogSource(given)
    return kafka_metadata.KafkaMetadataSource(given)


def _stored_bytes(task: InputPartition) -> int:
    return sum(piece.size for piece in task.value if isinstance(piece, FileRange))


def without_zones(table: pa.Table) -> pa.Table:
    """Returns the table with times of UTC as times without a zone."""
    for index, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type) and field.type.tz:
            kind = pa.timestamp(field.type.unit)
            table = table.set_column(index, field.name, table.column(index).cast(kind))
    return table
