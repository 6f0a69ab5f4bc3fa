"""`spark.readStream.format("kafka_metadata")`: the records of the metadata log as they are committed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from trimaran.spark.data_source.streams import Offsets, OffsetStreamReader, Spans
from trimaran.spark.data_source.tracebacks import without_frames
from trimaran.spark.kafka_metadata.bounds import KEY
from trimaran.spark.kafka_metadata.log_tables.records import topic_names
from trimaran.spark.kafka_metadata.options import MetadataOptions
from trimaran.spark.kafka_metadata.plan import (
    MetadataTask,
    stream_bounds,
    stream_start,
    stream_tasks,
    tasks_before,
)
from trimaran.spark.kafka_metadata.registry import TABLES
from trimaran.spark.origins.origin import Bounds, TopicPartition


class MetadataStreamReader(OffsetStreamReader):
    """The log of the one metadata partition; topics are named by all records up to the end of a micro-batch."""

    def __init__(self, options: MetadataOptions, columns: tuple[str, ...]) -> None:
        super().__init__(options.stream, fail_on_data_loss=options.fail_on_data_loss)
        self._options = options
        self._columns = columns
        self._names: dict[bytes, str] = {}
        self._named_to: int | None = None

    def starting_offsets(self) -> Offsets:
        return {KEY: stream_start(self._options)}

    def bounds(self) -> Mapping[TopicPartition, Bounds]:
        return {KEY: stream_bounds(self._options)}

    def tasks(self, spans: Spans) -> Sequence[MetadataTask]:
        if self._options.cluster is None:  # else `ControllerRange.batches` finds what was trimmed
            spans = self.there(spans, self.bounds())
        if not spans:
            return []
        [(start, end)] = spans.values()
        tasks = stream_tasks(self._options, start, end)
        if "topic" not in self._columns and not self._options.topics:
            return tasks
        return [replace(task, names=self._names_up_to(end)) for task in tasks]

    def _names_up_to(self, end: int) -> dict[bytes, str]:
        """Of each micro-batch only what is new is looked at, but for the first."""
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
