"""The writers that Spark runs: `df.write` and, for streams, `df.writeStream` to format `kafka_log`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from trimaran.spark.data_source.tracebacks import without_frames
from trimaran.spark.options import OptionError, tell
from trimaran.spark.sink.options import SinkOptions
from trimaran.spark.sink.plain import write_plain
from trimaran.spark.sink.rows import check_schema


@dataclass(frozen=True, slots=True)
class Written(WriterCommitMessage):
    """The outcome of a task: the number of records."""

    count: int


class LogWriter(DataSourceArrowWriter):
    """Writes the rows of a batch query, at least once."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        with without_frames():
            return Written(write_plain(self._options, iterator))


class LogStreamWriter(DataSourceStreamArrowWriter):
    """Writes the rows of each micro-batch, at least once."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        with without_frames():
            return Written(write_plain(self._options, iterator))


def batch_writer(given: Mapping[str, str], schema: StructType, overwrite: bool) -> LogWriter:
    """Returns the writer of a batch query. Raises OptionError."""
    if overwrite:
        raise OptionError(
            "kafka_log: a topic cannot be overwritten: use .mode('append'), as with Spark's own Kafka sink"
        )
    options = SinkOptions.parse(given, streaming=False)
    check_schema(_types(schema), options.topic)
    tell(options.notes)
    return LogWriter(options)


def stream_writer(given: Mapping[str, str], schema: StructType) -> LogStreamWriter:
    """Returns the writer of a stream; it appends in each output mode. Raises OptionError."""
    options = SinkOptions.parse(given, streaming=True)
    check_schema(_types(schema), options.topic)
    return LogStreamWriter(options)


def _types(schema: StructType) -> list[tuple[str, str]]:
    return [(field.name, field.dataType.simpleString()) for field in schema.fields]
