"""The writers of `df.write` and, for streams, `df.writeStream` to format `kafka_log`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from trimaran.spark.data_source.shipped import Shipped
from trimaran.spark.data_source.tracebacks import without_frames
from trimaran.spark.data_source.write_failed import WriteFailed
from trimaran.spark.options import OptionError, tell
from trimaran.spark.sink.exactly_once.driver import open_driver
from trimaran.spark.sink.exactly_once.protocol import Begun, Prepared
from trimaran.spark.sink.exactly_once.task import TaskOutcome, write_prepared
from trimaran.spark.sink.options import SinkOptions
from trimaran.spark.sink.plain import write_plain
from trimaran.spark.sink.rows import check_schema


@dataclass(frozen=True, slots=True)
class Written(WriterCommitMessage):
    """The outcome of a task: the number of records."""

    count: int


class LogWriter(Shipped, DataSourceArrowWriter):
    """Writes the rows of a batch query, at least once."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        with without_frames():
            return Written(write_plain(self._options, iterator))


class LogStreamWriter(Shipped, DataSourceStreamArrowWriter):
    """Writes the rows of each micro-batch, at least once."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        _tell_once(self._options.notes)
        with without_frames():
            return Written(write_plain(self._options, iterator))


@dataclass(frozen=True, slots=True)
class PreparedTask(WriterCommitMessage):
    """The outcome of a task whose transaction is open."""

    outcome: TaskOutcome


class ExactlyOnceWriter(Shipped, DataSourceStreamArrowWriter):
    """Writes the rows of each micro-batch exactly once.

    For each micro-batch Spark creates a writer on the driver, with `begun`, and sends it to the tasks. When the tasks
    are done, it creates another writer, without `begun`, and calls its `commit` or `abort`.
    """

    def __init__(self, options: SinkOptions, begun: Begun | None) -> None:
        self._options = options
        self._begun = begun

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        with without_frames():
            assert self._begun is not None
            _tell_once(self._options.notes)
            query, batch = _running()
            return PreparedTask(write_prepared(self._options, self._begun, query, batch, iterator))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        outcomes = _outcomes(messages)
        if any(outcome.is_skipped for outcome in outcomes):
            return  # the micro-batch was finished before the tasks began
        with without_frames(), open_driver(self._options) as driver:
            last = outcomes[-1]
            driver.commit(last.lease, last.query, batchId, _transactions(outcomes))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        outcomes = _outcomes(messages)
        if not outcomes or any(outcome.is_skipped for outcome in outcomes):
            return  # the next start, or the timeout, aborts open transactions
        with without_frames(), open_driver(self._options) as driver:
            last = outcomes[-1]
            driver.abort(last.lease, last.query, batchId, _transactions(outcomes))


# The notes that this process has logged.
_told: set[str] = set()


def _tell_once(notes: Sequence[str]) -> None:
    """Logs notes about options of a stream in its first task. The driver has a new process for each micro-batch, which
    cannot know what earlier ones have logged.
    """
    context = TaskContext.get()
    if context is None or context.partitionId() == 0:
        tell(note for note in notes if note not in _told)
        _told.update(notes)


class MicroBatch(NamedTuple):
    """A micro-batch: the id of its query, which the checkpoint keeps, and its number."""

    query: str
    number: int


def _running() -> MicroBatch:
    """Returns the micro-batch of this task."""
    context = TaskContext.get()
    query = context and context.getLocalProperty("sql.streaming.queryId")
    batch = context and context.getLocalProperty("streaming.sql.batchId")
    if not query or not batch:
        raise WriteFailed(
            "deliveryGuarantee=exactly_once needs the ids of the query and of its micro-batch, which this Spark does "
            "not give to tasks"
        )
    return MicroBatch(query, int(batch))


def _outcomes(messages: Sequence[WriterCommitMessage | None]) -> list[TaskOutcome]:
    return [message.outcome for message in messages if isinstance(message, PreparedTask)]


def _transactions(outcomes: Sequence[TaskOutcome]) -> list[Prepared]:
    return [outcome.transaction for outcome in outcomes if outcome.transaction is not None]


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


def stream_writer(
    given: Mapping[str, str], schema: StructType, *, begins: bool
) -> DataSourceStreamArrowWriter:
    """Returns the writer of a stream, which appends in every output mode. With `begins` it is for the beginning of a
    micro-batch, otherwise for its end. Raises OptionError, WriteFailed, DataUnreadable.
    """
    options = SinkOptions.parse(given, streaming=True)
    check_schema(_types(schema), options.topic)
    if options.exactly_once is None:
        return LogStreamWriter(options)
    if not begins:
        return ExactlyOnceWriter(options, None)
    with open_driver(options) as driver:
        return ExactlyOnceWriter(options, driver.begin())


def _types(schema: StructType) -> list[tuple[str, str]]:
    return [(field.name, field.dataType.simpleString()) for field in schema.fields]
