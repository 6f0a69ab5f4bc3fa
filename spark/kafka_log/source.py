"""`spark.read.format("kafka_log")`: records and batches of data logs, straight from node directories.

Rows and options are those of Spark's own Kafka source where it has them; no broker is needed and none is asked. Reading
never writes. Left out yet: brokers as origin, streaming, decoded internal topics, `read_committed` (records of aborted
transactions are shown, as Spark's source does by default).

```
option                              default          meaning
path (or load([…]))                                  node directories, directories of such, globs
assign | subscribe |                all but __…      JSON {"topic":[0,1]} | names | regular expression
  subscribePattern
startingOffsets, endingOffsets      earliest, latest JSON {"topic":{"0":23}}; -2 earliest, -1 latest
level                               records          records | batches
end                                 high_watermark   as the directory's checkpoint has it | log_end
replicas                            leader           leader: the one that holds most committed records | all
includeHeaders, includeControl      false            headers; control batches (their raw records, at level records)
verifyCrc                           true             false: damage is shown in crc_valid instead of raised
splitBytes, minPartitions           32 MiB, 1        the size and number of Spark's tasks
```
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from spark.columns import columns_of, spark_schema
from spark.kafka_log.options import LogOptions
from spark.kafka_log.plan import plan_log
from spark.kafka_log.read import BATCH_SCHEMA, RECORD_SCHEMA, Wanted, read_batches, read_records

COSTLY_COLUMNS = {"uncompressed_bytes"}  # only when the user's schema names them


class KafkaLogSource(DataSource):
    """The format `kafka_log`."""

    @classmethod
    def name(cls) -> str:
        return "kafka_log"

    def schema(self) -> StructType:
        options = LogOptions.parse(self.options)
        left_out = COSTLY_COLUMNS if options.include_headers else COSTLY_COLUMNS | {"headers"}
        return spark_schema(
            pa.schema([field for field in _offered(options) if field.name not in left_out])
        )

    def reader(self, schema: StructType) -> DataSourceReader:
        options = LogOptions.parse(self.options)
        return LogReader(options, columns_of(schema, _offered(options), self.name()))


def _offered(options: LogOptions) -> pa.Schema:
    return RECORD_SCHEMA if options.level == "records" else BATCH_SCHEMA


class LogReader(DataSourceReader):
    """Plans on the driver, reads on executors; both are functions that know nothing of Spark."""

    def __init__(self, options: LogOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._wanted = Wanted(columns, options.include_control, options.verify_crc)

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(task) for task in plan_log(self._options) or [()]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        read = read_records if self._options.level == "records" else read_batches
        return read(partition.value, self._wanted)
