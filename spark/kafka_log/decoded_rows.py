"""Rows of the decoded levels: records of an internal topic, read as any, each made into what its decoder gives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa

from trimaran.spark.data_source.columns import rows_to_arrow
from trimaran.spark.data_source.wanted import Wanted
from trimaran.spark.kafka_log.decoded import Level, Place
from trimaran.spark.kafka_log.records import read_records
from trimaran.spark.origins.origin import Range

RECORD_COLUMNS = ("key", "value", "partition", "offset", "timestamp")
CHUNK_ROWS = 10_000


def read_decoded(level: Level, ranges: Iterable[Range], wanted: Wanted) -> Iterator[pa.RecordBatch]:
    """Rows of the level. Raises as `read_records`."""
    rows: list[tuple[Any, ...]] = []
    for chunk in read_records(ranges, replace(wanted, columns=RECORD_COLUMNS)):
        times = chunk.column("timestamp").cast(pa.int64()).to_pylist()
        cells = [chunk.column(name).to_pylist() for name in RECORD_COLUMNS[:-1]]
        for key, value, partition, offset, us in zip(*cells, times, strict=True):
            place = Place(partition, offset, None if us is None else us // 1000)
            rows.extend(level.decode(place, key, value))
            if len(rows) >= CHUNK_ROWS:
                yield rows_to_arrow(rows, level.columns, wanted.columns)
                rows = []
    yield rows_to_arrow(rows, level.columns, wanted.columns)
