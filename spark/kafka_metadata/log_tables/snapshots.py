"""`snapshots`: the snapshots of metadata logs, including damaged ones with their errors, one row each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

from trimaran.log.batches.batch import BatchView
from trimaran.log.batches.columns import decode_columns
from trimaran.log.batches.records import RECORDS_BYTES_MAX, decode_records
from trimaran.spark.data_source.columns import (
    BOOL,
    INT,
    LONG,
    STRING,
    TIMESTAMP,
    Column,
    field,
    rows_to_arrow,
)
from trimaran.spark.kafka_metadata.log_walk.walk import snapshot_batches, snapshot_moment
from trimaran.spark.kafka_metadata.options import MetadataOptions
from trimaran.spark.kafka_metadata.plan import MetadataTask, Snapshot
from trimaran.spark.kafka_metadata.table import Table
from trimaran.spark.origins.origin import DataUnreadable
from trimaran.wire.errors import KafkaError, RemoteProtocolError
from trimaran.wire.identity import NodeId
from trimaran.wire.messages.control import ControlType, decode_control_key
from trimaran.wire.records.topics import PartitionRecord, TopicRecord

# fmt: off
COLUMNS = (
    Column("node_id", INT, field("node_id"), "the node of the log beside it", "meta.properties"),
    Column("file", STRING, field("snapshot.path"), "the .checkpoint file"),
    Column("end_offset", LONG, field("snapshot.end_offset"), "the first offset that it does not cover", "file name"),
    Column("epoch", INT, field("snapshot.epoch"), "epoch of the last record that it covers", "file name"),
    Column("last_record_ts", TIMESTAMP, field("last_record_ms"), "when that record was written",
           "SnapshotHeaderRecord.lastContainedLogTimestamp", "UTC"),
    Column("bytes", LONG, field("snapshot.size"), "size of the file", unit="bytes"),
    Column("records", LONG, lambda row: row.seen.total(), "metadata records in it"),
    Column("topics", LONG, lambda row: row.seen[TopicRecord.KEY], "topics in it", "TopicRecord"),
    Column("partitions", LONG, lambda row: row.seen[PartitionRecord.KEY], "partitions in it", "PartitionRecord"),
    Column("complete", BOOL, field("is_complete"), "whether it has its footer", "SnapshotFooterRecord"),
    Column("error", STRING, field("error"), "its fault; null: none"),
)
# fmt: on


class SnapshotRow(NamedTuple):
    """A row: a snapshot. `seen` counts its records by type; `error` is None if it is undamaged."""

    node_id: NodeId
    snapshot: Snapshot
    last_record_ms: int | None
    seen: Counter[int]
    is_complete: bool
    error: str | None


def read(
    task: MetadataTask, wanted: tuple[str, ...], _options: MetadataOptions
) -> Iterator[pa.RecordBatch]:
    rows = [] if task.snapshot is None else [_row(task, task.snapshot)]
    yield rows_to_arrow(rows, COLUMNS, wanted)


def _row(task: MetadataTask, snapshot: Snapshot) -> SnapshotRow:
    seen: Counter[int] = Counter()
    complete, error, timestamp_ms = False, None, None
    try:
        timestamp_ms = snapshot_moment(snapshot).timestamp_ms
        for _, batch in snapshot_batches(snapshot):
            if batch.is_control:
                complete = complete or _is_foot(batch)
            else:
                _count(batch, seen)
    except (DataUnreadable, RemoteProtocolError, KafkaError) as problem:
        error = str(problem)
    if error is None and not complete:
        error = "it has no foot: its writer did not finish"
    return SnapshotRow(task.node_id, snapshot, timestamp_ms, seen, complete, error)


def _is_foot(batch: BatchView) -> bool:
    kinds = [decode_control_key(record.key or b"") for record in decode_records(batch)]
    return ControlType.SNAPSHOT_FOOTER in kinds


def _count(batch: BatchView, seen: Counter[int]) -> None:
    columns = decode_columns([batch], RECORDS_BYTES_MAX)
    data = memoryview(columns.data)
    seen.update(
        data[start + 1] if size > 1 else -1
        for start, size in zip(columns.value_start, columns.value_size, strict=True)
    )


TABLE = Table(
    "snapshots",
    "The snapshots beside metadata logs: what they cover, how large they are, whether they are whole.",
    COLUMNS,
    read,
    "snapshots",
    frozenset(("nodes",)),
)
