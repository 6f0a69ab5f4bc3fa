"""The function by which an executor reads a task, for each level of `kafka_log`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa

from trimaran.spark.data_source.wanted import Wanted
from trimaran.spark.kafka_log.batches import read_batches
from trimaran.spark.kafka_log.decoded import DECODED
from trimaran.spark.kafka_log.decoded_rows import read_decoded
from trimaran.spark.kafka_log.records import read_records
from trimaran.spark.kafka_log.segments import read_segments

Read = Callable[[Any, Wanted], Iterator[pa.RecordBatch]]
READERS: dict[str, Read] = {
    "records": read_records,
    "batches": read_batches,
    "segments": read_segments,
    **{level.name: partial(read_decoded, level) for level in DECODED.values()},
}
