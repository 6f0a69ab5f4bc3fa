"""The level `segments`: a row for each segment file of each replica, by its batches' headers. Pure, without Spark.

Files are shown as they are, up to their last whole batch, whatever was committed of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from trimaran.log.inspection.reader import SegmentFile, scan_batches
from trimaran.spark.data_source.columns import TIMESTAMP, microseconds
from trimaran.spark.data_source.read_request import ReadRequest
from trimaran.spark.origins.directories.file_range import LogFiles
from trimaran.spark.origins.directories.replicas import StoredReplica

SEGMENT_SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("broker_id", pa.int32()),
        ("log_dir", pa.string()),
        ("file", pa.string()),
        ("base_offset", pa.int64()),
        ("next_offset", pa.int64()),  # behind its last batch
        ("size_bytes", pa.int64()),
        ("batches", pa.int64()),
        ("records", pa.int64()),
        (
            "missing_offsets",
            pa.int64(),
        ),  # what compaction took, and control records stand among the rest
        ("min_timestamp", TIMESTAMP),  # of the batches' first records
        ("max_timestamp", TIMESTAMP),
        ("is_active", pa.bool_()),
        ("is_cleaned", pa.bool_()),  # wholly below the cleaner's offset
    ]
)


@dataclass(frozen=True, slots=True)
class SegmentTask:
    """One segment; `end_position` is that of its last whole batch, where the driver knows it."""

    log: LogFiles
    segment: SegmentFile
    is_active: bool


def segment_tasks(
    replicas: Iterable[StoredReplica], task_bytes: int
) -> list[tuple[SegmentTask, ...]]:
    """Segments in groups of about `task_bytes`."""
    tasks: list[tuple[SegmentTask, ...]] = []
    group: list[SegmentTask] = []
    size = 0
    for replica in replicas:
        for segment in replica.segments:
            group.append(SegmentTask(replica.log, segment, segment is replica.segments[-1]))
            size += segment.size
            if size >= task_bytes:
                tasks.append(tuple(group))
                group, size = [], 0
    return [*tasks, tuple(group)] if group else tasks


def read_segments(tasks: Sequence[SegmentTask], request: ReadRequest) -> Iterator[pa.RecordBatch]:
    """Rows of the level. Raises OSError."""
    rows = [row for task in tasks if (row := _row(task)) is not None]
    schema = pa.schema([SEGMENT_SCHEMA.field(name) for name in request.columns])
    yield pa.RecordBatch.from_pylist([{n: row[n] for n in request.columns} for row in rows], schema)


def _row(task: SegmentTask) -> dict[str, Any] | None:
    """None for a segment that is gone meanwhile: what is listed is what is there."""
    found, segment = task.log.found, task.segment
    batches = records = 0
    next_offset = segment.base_offset
    first_ms: int | None = None
    last_ms: int | None = None
    try:
        for _, batch in scan_batches(segment.path, files=found.storage.files, check_crc=False):
            batches, records = batches + 1, records + batch.count
            next_offset = batch.next_offset
            if batch.count:
                times = batch.base_timestamp, batch.max_timestamp
                first_ms = times[0] if first_ms is None else min(first_ms, times[0])
                last_ms = times[1] if last_ms is None else max(last_ms, times[1])
    except FileNotFoundError:
        return None
    return {
        "topic": found.topic,
        "partition": found.partition,
        "broker_id": found.node_id if found.node_id >= 0 else None,
        "log_dir": found.log_dir or None,
        "file": found.storage.url(segment.path),
        "base_offset": segment.base_offset,
        "next_offset": next_offset,
        "size_bytes": segment.size,
        "batches": batches,
        "records": records,
        "missing_offsets": next_offset - segment.base_offset - records,
        "min_timestamp": microseconds(first_ms),
        "max_timestamp": microseconds(last_ms),
        "is_active": task.is_active,
        "is_cleaned": next_offset <= task.log.cleaned_to and not task.is_active,
    }
