"""`spark.read.format("kafka_log")`, and `spark.readStream`: data logs of node directories or of running brokers.

Rows and options that Spark's own Kafka source has are the same here. Reading never writes and joins no consumer group.

```
option                              default          meaning
path (or load([…]))                                  node directories, directories of such, globs, a partition's
                                                     directory, one segment; URLs of fsspec (s3://…, with storage.*)
kafka.bootstrap.servers                              running brokers instead; kafka.security.protocol, kafka.sasl.…,
                                                     kafka.ssl.…, kafka.client.id, kafka.max.partition.fetch.bytes
kafka.isolation.level               read_uncommitted read_committed: without aborted transactions, up to the last stable
                                                     offset
assign | subscribe |                all but __…      JSON {"topic":[0,1]} | names | regular expression
  subscribePattern
startingOffsets, endingOffsets      earliest, latest JSON {"topic":{"0":23}}; -2 earliest, -1 latest
startingTimestamp, endingTimestamp                   milliseconds; starting/endingOffsetsByTimestamp by partition
startingOffsetsByTimestampStrategy  error            latest: a time that no record has reached is the end
failOnDataLoss true false: missing or damaged data causes a warning and is omitted
level                               records          records | batches | segments | group_offsets | group_members |
                                                     transactions (decoded internal topics; the level names the topic)
end                                 high_watermark   high_watermark (of the directory's checkpoint) | log_end
replicas                            leader           leader (the one with the latest epoch, then the longest) | all
includeHeaders, includeControl      false            headers; control batches (their raw records, at level records)
includeBatchInfo                    false            columns of the batch that contains a record
columns                             all              names, separated by commas; equivalent to a user's schema
verifyCrc                           true             false: damage is shown in crc_valid instead of raised
splitBytes, minPartitions           128 MiB, 1       the size and number of Spark's tasks; by default down to 32 MiB,
                                                     if otherwise cores of the driver's machine had no task
maxOffsetsPerTrigger, minOffsetsPerTrigger, maxTriggerDelay     of streams
```
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.types import StructType

from trimaran.spark.data_source.catalog_tables import read_options, table_options, with_options
from trimaran.spark.data_source.columns import schema_of
from trimaran.spark.data_source.conditions import METADATA, NO_CONDITIONS, Conditions
from trimaran.spark.data_source.limits import Resolving
from trimaran.spark.data_source.read_request import ReadRequest
from trimaran.spark.data_source.schemas import columns_of, spark_schema
from trimaran.spark.data_source.shipped import Shipped
from trimaran.spark.data_source.stream_offsets import StreamOffsets, StreamSurvey, TopicIds
from trimaran.spark.data_source.streams import (
    FailedStreamReader,
    OffsetStreamReader,
    Spans,
)
from trimaran.spark.data_source.tracebacks import without_frames
from trimaran.spark.kafka_log.batches import BATCH_SCHEMA, read_batches
from trimaran.spark.kafka_log.decoded import DECODED, read_decoded
from trimaran.spark.kafka_log.options import LogOptions
from trimaran.spark.kafka_log.plan import (
    Task,
    open_origin,
    plan_log,
    plan_segments,
    wanted_partitions,
)
from trimaran.spark.kafka_log.records import ALL_COLUMNS, RECORD_SCHEMA, read_records
from trimaran.spark.kafka_log.segments import SEGMENT_SCHEMA, read_segments
from trimaran.spark.options import OptionError, tell
from trimaran.spark.origins.origin import Origin, Part, Reading
from trimaran.spark.sink.writer import batch_writer, stream_writer

log = logging.getLogger(__name__)

# The function with which an executor reads a task, for each level.
Read = Callable[[Any, ReadRequest], Iterator[pa.RecordBatch]]
READERS: dict[str, Read] = {
    "records": read_records,
    "batches": read_batches,
    "segments": read_segments,
    **{level.name: partial(read_decoded, level) for level in DECODED.values()},
}
COSTLY_COLUMNS = {"uncompressed_bytes"}  # computed only if the user's schema names them


class KafkaLogSource(DataSource):
    """The format `kafka_log`."""

    @classmethod
    def name(cls) -> str:
        return "kafka_log"

    def schema(self) -> StructType:
        with without_frames():
            # Called for streams, too: Spark does not pass the kind of query, and no column depends on it.
            kept = table_options(self.name(), self.options)
            options = _any_options(self.options if kept is None else kept)
            return with_options(spark_schema(_default_schema(options)), kept)

    def reader(self, schema: StructType) -> DataSourceReader:
        with without_frames():
            options = LogOptions.parse(read_options(self.options, schema))
            columns = columns_of(schema, _offered(options), self.name())
            return LogReader(options, columns, _conditions(schema, options.level))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        try:
            options = LogOptions.parse(read_options(self.options, schema), streaming=True)
            columns = columns_of(schema, _offered(options), self.name())
            return LogStreamReader(options, read_request_of(options, columns))
        except OptionError as error:
            return FailedStreamReader(error)  # PySpark loses an exception that is raised here

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        with without_frames():
            return batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        with without_frames():
            begins = not getattr(self, "_is_restored", False)
            return stream_writer(self.options, schema, begins=begins)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Marks a source that Spark has sent to another process, which it does only at the end of a micro-batch."""
        self.__dict__.update(state, _is_restored=True)


def _any_options(given: Mapping[str, str]) -> LogOptions:
    try:
        return LogOptions.parse(given)
    except OptionError:
        # Options that are wrong for a batch may be valid for a stream; if not, this is the error to show.
        return LogOptions.parse(given, streaming=True)


def _offered(options: LogOptions) -> pa.Schema:
    if options.level in DECODED:
        return schema_of(DECODED[options.level].columns)
    return {"records": ALL_COLUMNS, "batches": BATCH_SCHEMA, "segments": SEGMENT_SCHEMA}[
        options.level
    ]


def _default_schema(options: LogOptions) -> pa.Schema:
    offered = _offered(options)
    if options.columns:
        known = set(offered.names)
        unknown = [name for name in options.columns if name not in known]
        if unknown:
            raise OptionError(
                f"kafka_log: option columns: no column {unknown[0]}; there are: {', '.join(offered.names)}"
            )
        return pa.schema([offered.field(name) for name in options.columns])
    if options.level == "records":
        left_out = set() if options.include_headers else {"headers"}
        if not options.include_batch_info:
            left_out |= set(offered.names) - set(RECORD_SCHEMA.names)
    else:
        left_out = COSTLY_COLUMNS
    return pa.schema([field for field in offered if field.name not in left_out])


def _conditions(schema: StructType, level: str) -> Conditions:
    """Returns the conditions that the rule of the session has put into the schema."""
    kept = [field.metadata or {} for field in schema.fields]
    written = [metadata[METADATA] for metadata in kept if METADATA in metadata]
    return Conditions.parse(written[0], level) if written else NO_CONDITIONS


def read_request_of(options: LogOptions, columns: tuple[str, ...]) -> ReadRequest:
    """Returns the request that executors get."""
    reading = Reading(
        include_control=options.include_control,
        verify_crc=options.verify_crc,
        batch_bytes_max=options.batch_bytes_max,
        committed=options.committed,
        fail_on_data_loss=options.fail_on_data_loss,
    )
    return ReadRequest(columns, reading)


class Planned(InputPartition):
    """A task. The first one of a read has the summary, marked so that `ScanRule.java` finds it in serialized bytes."""

    def __init__(self, task: Iterable[Any], summary: str = "") -> None:
        super().__init__(task)
        self.summary = f"<kafka_log reads {summary}>" if summary else ""


class LogReader(Shipped, DataSourceReader):
    """Plans on the driver and reads on executors; both functions are independent of Spark."""

    def __init__(
        self,
        options: LogOptions,
        columns: tuple[str, ...],
        conditions: Conditions = NO_CONDITIONS,
    ) -> None:
        self._options = options
        self._columns = columns
        self._conditions = conditions

    def partitions(self) -> Sequence[InputPartition]:
        tell(self._options.notes)
        with without_frames():
            plan = plan_segments if self._options.level == "segments" else plan_log
            tasks, summary = plan(self._options, self._conditions)
            log.info("kafka_log: %s", summary)
            first, *others = tasks or [()]
            return [Planned(first, summary), *map(Planned, others)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with without_frames():
            request = read_request_of(self._options, self._columns)
            yield from READERS[self._options.level](partition.value, request)


class LogStreamReader(OffsetStreamReader):
    """Opens its origin for each micro-batch; executors receive ranges as in a batch read."""

    def __init__(self, options: LogOptions, request: ReadRequest) -> None:
        super().__init__(
            options.stream, fail_on_data_loss=options.fail_on_data_loss, notes=options.notes
        )
        self._options = options
        self._request = request

    def starting_offsets(self) -> StreamOffsets:
        origin = open_origin(self._options)
        options = self._options
        bounds = origin.bounds(wanted_partitions(origin, options.topics))
        resolving = Resolving(
            "kafka_log",
            origin.offsets_at,
            bounds,
            frozenset(bounds),
            options.strict_times,
            options.fail_on_data_loss,
        )
        return StreamOffsets(resolving.start(options.starting), origin.topic_ids())

    def survey(self) -> StreamSurvey:
        return self._surveyed(open_origin(self._options))

    def _surveyed(self, origin: Origin) -> StreamSurvey:
        fail = self._options.fail_on_data_loss
        bounds = origin.bounds(wanted_partitions(origin, self._options.topics, fail=fail))
        return StreamSurvey(bounds, origin.topic_ids())

    def tasks(self, spans: Spans, topic_ids: TopicIds) -> Sequence[Task]:
        origin = open_origin(self._options)
        found = self.there(spans, topic_ids, self._surveyed(origin))
        parts = {key: [Part(start, end)] for key, (start, end) in found.items()}
        return origin.tasks(parts, self._options.split_bytes, self._options.min_partitions)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with without_frames():
            yield from READERS[self._options.level](partition.value, self._request)
