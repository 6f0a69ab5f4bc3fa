"""`spark.read.format("kafka_metadata")`: the metadata log as tables: `records`, `partition_history`, `quorum_epochs`.

Reads the directories of controllers (and brokers, whose copies are as good) of ours and of Apache Kafka. Left out yet:
a running quorum as origin, streaming, the tables derived from other records.

```
option                   default   meaning
path (or load([…]))                node directories, directories of such, globs
table                    records   records | partition_history | quorum_epochs
nodes                    leader    leader: the log of the latest epoch, then the longest | all | ids; of `records` only
recordTypes              all       names, parted by commas
includeControl           false     leader changes, voters, snapshot headers
includeUncommitted       false     what no majority of the voters' directories shares
includeSnapshots         needed    needed: where the log no longer begins at 0 | true | false
verifyCrc, splitBytes    true, 4 MiB
```
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from spark.columns import columns_of, spark_schema
from spark.kafka_log.read import Wanted
from spark.kafka_metadata import partition_history, quorum_epochs, records
from spark.kafka_metadata.options import MetadataOptions
from spark.kafka_metadata.plan import plan_metadata

SCHEMAS = {
    "records": records.SCHEMA,
    "partition_history": partition_history.SCHEMA,
    "quorum_epochs": quorum_epochs.SCHEMA,
}


class KafkaMetadataSource(DataSource):
    """The format `kafka_metadata`."""

    @classmethod
    def name(cls) -> str:
        return "kafka_metadata"

    def schema(self) -> StructType:
        return spark_schema(SCHEMAS[MetadataOptions.parse(self.options).table])

    def reader(self, schema: StructType) -> DataSourceReader:
        options = MetadataOptions.parse(self.options)
        columns = columns_of(schema, SCHEMAS[options.table], self.name())
        reader = RecordsReader if options.table == "records" else FoldedReader
        return reader(options, columns)


class RecordsReader(DataSourceReader):
    """Record by record, in as many tasks as the log's size asks for."""

    def __init__(self, options: MetadataOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._wanted = Wanted(columns, options.include_control, options.verify_crc)

    def partitions(self) -> Sequence[InputPartition]:
        tasks = plan_metadata(self._options)
        names = records.topic_names(tasks) if "topic" in self._wanted.columns else {}
        return [InputPartition((task, names)) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        task, names = partition.value
        return records.read_metadata_records(task, self._wanted, self._options.record_types, names)


class FoldedReader(DataSourceReader):
    """A table that is one walk through the whole log: a single task."""

    def __init__(self, options: MetadataOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(task) for task in plan_metadata(self._options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if self._options.table == "quorum_epochs":
            return quorum_epochs.read_quorum_epochs(partition.value, self._columns)
        return partition_history.read_partition_history(partition.value, self._columns)
