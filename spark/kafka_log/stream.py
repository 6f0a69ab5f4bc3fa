"""`spark.readStream.format("kafka_log")`: micro-batches of data logs, of directories or of running brokers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from trimaran.spark.data_source.limits import Resolving
from trimaran.spark.data_source.streams import Offsets, OffsetStreamReader, Spans
from trimaran.spark.data_source.tracebacks import without_frames
from trimaran.spark.data_source.wanted import Wanted
from trimaran.spark.kafka_log.options import LogOptions
from trimaran.spark.kafka_log.plan import Task, open_origin, wanted_partitions
from trimaran.spark.kafka_log.readers import READERS
from trimaran.spark.origins.origin import Bounds, Origin, TopicPartition


class LogStreamReader(OffsetStreamReader):
    """Asks its origin anew for each micro-batch; executors get ranges as in a batch read."""

    def __init__(self, options: LogOptions, wanted: Wanted) -> None:
        super().__init__(options.stream, fail_on_data_loss=options.fail_on_data_loss)
        self._options = options
        self._wanted = wanted

    def starting_offsets(self) -> Offsets:
        origin = open_origin(self._options)
        bounds = self._bounds(origin)
        options = self._options
        resolving = Resolving(
            "kafka_log",
            origin.offsets_at,
            bounds,
            frozenset(bounds),
            options.strict_times,
            options.fail_on_data_loss,
        )
        return resolving.start(options.starting)

    def bounds(self) -> Mapping[TopicPartition, Bounds]:
        return self._bounds(open_origin(self._options))

    def _bounds(self, origin: Origin) -> Mapping[TopicPartition, Bounds]:
        return origin.bounds(wanted_partitions(origin, self._options.topics))

    def tasks(self, spans: Spans) -> Sequence[Task]:
        origin = open_origin(self._options)
        found = self.there(spans, self._bounds(origin))
        return origin.tasks(found, self._options.split_bytes, self._options.min_partitions)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with without_frames():
            yield from READERS[self._options.level](partition.value, self._wanted)
