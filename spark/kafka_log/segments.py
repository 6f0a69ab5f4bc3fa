"""The level `segments`: a row for each segment file of each replica, from the headers of its batches. Pure, without
Spark.

Files are shown up to their last complete batch, committed or not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from trimaran.log.inspection.reader import SegmentFile, scan_batches
from trimaran.spark.data_source.columns import (
    BOOL,
    INT,
    LONG,
    STRING,
    TIMESTAMP,
    Column,
    field,
    microseconds,
    schema_of,
)
from trimaran.spark.data_source.read_request import ReadRequest
from trimaran.spark.origins.damage import lose, unreadable
from trimaran.spark.origins.directories.discovery import PartitionFound
from trimaran.spark.origins.directories.file_range import LogFiles
from trimaran.spark.origins.directories.replicas import StoredReplica
from trimaran.wire.identity import Offset


@dataclass(frozen=True, slots=True)
class SegmentTask:
    """One segment to be read."""

    log: LogFiles
    segment: SegmentFile
    is_active: bool


def segment_tasks(
    replicas: Iterable[StoredReplica], task_bytes: int
) -> list[tuple[SegmentTask, ...]]:
    """Groups segments into tasks of about `task_bytes`."""
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
    """Yields the rows of the level. Raises DataUnreadable."""
    rows = []
    for task in tasks:
        try:
            row = _row(task)
        except OSError as error:
            lose(unreadable(error, task.segment.path), fail=request.reading.fail_on_data_loss)
        else:
            rows += [row] if row is not None else []
    chosen = [SEGMENT_COLUMNS[name] for name in request.columns]
    arrays = [pa.array(list(map(column.value, rows)), column.kind) for column in chosen]
    yield pa.RecordBatch.from_arrays(arrays, schema=schema_of(chosen))


class SegmentRow(NamedTuple):
    """A row: a segment with the contents of its batch headers; times are None without batches."""

    task: SegmentTask
    batches: int
    records: int
    next_offset: Offset
    first_ms: int | None
    last_ms: int | None

    @property
    def found(self) -> PartitionFound:
        return self.task.log.found

    @property
    def is_cleaned(self) -> bool:
        """Whether the whole segment is below the cleaner's offset."""
        return self.next_offset <= self.task.log.cleaned_to and not self.task.is_active


def _row(task: SegmentTask) -> SegmentRow | None:
    """Returns the row of a segment, None if it was deleted meanwhile."""
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
    return SegmentRow(task, batches, records, next_offset, first_ms, last_ms)


# fmt: off
SEGMENT_COLUMNS = {
    column.name: column
    for column in (
        Column("topic", STRING, field("found.key.topic")),
        Column("partition", INT, field("found.key.partition")),
        Column("broker_id", INT, lambda row: row.found.node_id if row.found.node_id >= 0 else None),
        Column("log_dir", STRING, lambda row: row.found.log_dir or None),
        Column("file", STRING, lambda row: row.found.storage.url(row.task.segment.path)),
        Column("base_offset", LONG, field("task.segment.base_offset")),
        Column("next_offset", LONG, field("next_offset")),  # the position after its last batch
        Column("size_bytes", LONG, field("task.segment.size")),
        Column("batches", LONG, field("batches")),
        Column("records", LONG, field("records")),  # control records count, too
        # The number of records that compaction removed.
        Column("missing_offsets", LONG, lambda row: row.next_offset - row.task.segment.base_offset - row.records),
        Column("min_timestamp", TIMESTAMP, lambda row: microseconds(row.first_ms)),  # the timestamp of the first record
        Column("max_timestamp", TIMESTAMP, lambda row: microseconds(row.last_ms)),
        Column("is_active", BOOL, field("task.is_active")),
        Column("is_cleaned", BOOL, field("is_cleaned")),
    )
}
# fmt: on
SEGMENT_SCHEMA = schema_of(SEGMENT_COLUMNS.values())
