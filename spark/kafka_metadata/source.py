"""`spark.read.format("kafka_metadata")`: the metadata log as fifteen tables.

`trimaran.spark.kafka_metadata.registry` lists them. The format reads directories of controllers or of brokers (they
have equivalent copies), or a running quorum, ours or Apache Kafka's. `spark.readStream` yields the records as they are
committed.

```
option                   default   meaning                                                         acts on
path (or load([…]))                node directories, directories of such, globs                    all
kafka.controller.bootstrap.servers a running quorum instead, with kafka.security.protocol …        all
table                    records   a name of `TABLES`
nodes                    leader    leader: the log of the latest epoch, then the longest | all |   records batches
                                   ids                                                             control snapshots
recordTypes              all       names, separated by commas                                      records
topics                   all       names, separated by commas                                      tables with topics
asOfOffset, …Timestamp   the end   the last record that counts                                     image, histories
startingOffsets, endingOffsets     {"__cluster_metadata":{"0":23}}; …Timestamp, …ByTimestamp too:  records, histories
                                   as in kafka_log, the end is excluded; intervals that overlap this range stay whole
includeControl           false     leader changes, voters, snapshot headers                        records
includeUncommitted       false     records that no majority of the voters' directories has
includeSnapshots         needed    needed: if the log no longer begins at 0 | true | false         records control
verifyCrc                true                                                                      records batches
splitBytes               4 MiB     the size of a task                                              all
storage.NAME                       an option of fsspec, if the path is a URL                        all
```
An option that has no effect on the table is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.types import StructType

from trimaran.spark.data_source.catalog_tables import read_options, table_options, with_options
from trimaran.spark.data_source.limits import Limit
from trimaran.spark.data_source.schemas import columns_of, spark_schema
from trimaran.spark.data_source.shipped import Shipped
from trimaran.spark.data_source.stream_offsets import StreamOffsets, StreamSurvey, TopicIds
from trimaran.spark.data_source.streams import (
    FailedStreamReader,
    OffsetStreamReader,
    Spans,
)
from trimaran.spark.data_source.tracebacks import without_frames
from trimaran.spark.kafka_metadata.log_tables.records import topic_names
from trimaran.spark.kafka_metadata.options import STREAM_OPTIONS, MetadataOptions
from trimaran.spark.kafka_metadata.plan import (
    MetadataTask,
    plan_metadata,
)
from trimaran.spark.kafka_metadata.registry import TABLES
from trimaran.spark.kafka_metadata.stream_plan import (
    stream_start,
    stream_survey,
    stream_tasks,
    tasks_before,
)
from trimaran.spark.kafka_metadata.table import Table
from trimaran.spark.options import EARLIEST, OptionError, tell
from trimaran.wire.identity import Offset

EARLIEST_LIMIT = Limit("startingOffsets", EARLIEST)
OPTIONS_OF = {table.name: table.options for table in TABLES.values()}


def parse_options(given: Mapping[str, str], *, streaming: bool = False) -> MetadataOptions:
    """Returns the options. Raises OptionError."""
    return MetadataOptions.parse(given, OPTIONS_OF, streaming=streaming)


def plan_table(
    table: Table, options: MetadataOptions, columns: Sequence[str]
) -> list[MetadataTask]:
    """Returns the tasks of a table, with the additional data for its rows. Raises DataUnreadable."""
    tasks = plan_metadata(options, table.plan)
    if table.name == "records" and ("topic" in columns or options.topics):
        # Records name a topic by its id, so the names are read first.
        before = replace(options, starting=EARLIEST_LIMIT, include_snapshots="needed")
        whole = tasks if options.starting.is_earliest else plan_metadata(before, table.plan)
        names = topic_names(whole)
        return [replace(task, names=names) for task in tasks]
    return tasks


class KafkaMetadataSource(DataSource):
    """The format `kafka_metadata`."""

    @classmethod
    def name(cls) -> str:
        return "kafka_metadata"

    def schema(self) -> StructType:
        with without_frames():
            kept = table_options(self.name(), self.options)
            options = _any_options(self.options if kept is None else kept)
            return with_options(spark_schema(TABLES[options.table].schema), kept)

    def reader(self, schema: StructType) -> DataSourceReader:
        with without_frames():
            options = parse_options(read_options(self.options, schema))
            offered = TABLES[options.table].schema
            return TableReader(options, columns_of(schema, offered, self.name()))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        try:
            options = parse_options(read_options(self.options, schema), streaming=True)
            columns = columns_of(schema, TABLES[options.table].schema, self.name())
            return MetadataStreamReader(options, columns)
        except OptionError as error:
            return FailedStreamReader(error)  # PySpark loses an exception that is raised here


def _any_options(given: Mapping[str, str]) -> MetadataOptions:
    try:
        return parse_options(given)
    except OptionError:
        # Options that are wrong for a batch may be valid for a stream, if they have the form of stream options.
        if not any(name in given for name in (*STREAM_OPTIONS, "startingOffsets")):
            raise
        return parse_options(given, streaming=True)


class TableReader(Shipped, DataSourceReader):
    """Plans on the driver and reads on executors; both functions are independent of Spark."""

    def __init__(self, options: MetadataOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> Sequence[InputPartition]:
        tell(self._options.notes)
        with without_frames():
            table = TABLES[self._options.table]
            return [
                InputPartition(task) for task in plan_table(table, self._options, self._columns)
            ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with without_frames():
            read = TABLES[self._options.table].read
            yield from read(partition.value, self._columns, self._options)


class MetadataStreamReader(OffsetStreamReader):
    """The stream of the metadata partition; the names of topics come from all records up to the end of a
    micro-batch.
    """

    def __init__(self, options: MetadataOptions, columns: tuple[str, ...]) -> None:
        super().__init__(
            options.stream, fail_on_data_loss=options.fail_on_data_loss, notes=options.notes
        )
        self._options = options
        self._columns = columns
        self._names: dict[bytes, str] = {}
        self._named_to: Offset | None = None

    def starting_offsets(self) -> StreamOffsets:
        return stream_start(self._options)

    def survey(self) -> StreamSurvey:
        return stream_survey(self._options)

    def tasks(self, spans: Spans, topic_ids: TopicIds) -> Sequence[MetadataTask]:
        spans = self.there(spans, topic_ids, self.survey())
        if not spans:
            return []
        [(start, end)] = spans.values()
        tasks = stream_tasks(self._options, start, end)
        if "topic" not in self._columns and not self._options.topics:
            return tasks
        return [replace(task, names=self._names_up_to(end)) for task in tasks]

    def _names_up_to(self, end: Offset) -> dict[bytes, str]:
        """Returns the names of the topics; after the first micro-batch it reads only new records."""
        if self._named_to is None:
            self._names = topic_names(tasks_before(self._options, end))
            self._named_to = end
        elif self._named_to < end:
            self._names |= topic_names(stream_tasks(self._options, self._named_to, end))
            self._named_to = end
        return dict(self._names)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with without_frames():
            yield from TABLES["records"].read(partition.value, self._columns, self._options)
