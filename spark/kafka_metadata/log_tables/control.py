"""`control`: what the metadata log says of itself: leaders, voters, versions, heads and feet of snapshots."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from trimaran.log.batches.batch import BatchView
from trimaran.log.batches.records import decode_records
from trimaran.spark.data_source.columns import (
    INT,
    INTS,
    LONG,
    STRING,
    TIMESTAMP,
    Column,
    rows_to_arrow,
)
from trimaran.spark.kafka_metadata.log_walk.walk import batches_in, snapshot_batches
from trimaran.spark.kafka_metadata.options import MetadataOptions
from trimaran.spark.kafka_metadata.plan import MetadataTask
from trimaran.spark.kafka_metadata.table import Table
from trimaran.spark.origins.origin import DataUnreadable
from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.messages.control import (
    ControlType,
    KRaftVersionRecord,
    LeaderChangeMessage,
    VotersRecord,
    decode_control_key,
    decode_control_value,
)
from trimaran.wire.text.as_json import as_json

COLUMNS = (
    Column("node_id", INT, "whose log it is", "meta.properties"),
    Column("source", STRING, "log, snapshot"),
    Column("file", STRING, "the segment or snapshot"),
    Column("position", LONG, "where its batch begins", unit="bytes"),
    Column("offset", LONG, "the record; of a snapshot: the last offset that it covers"),
    Column("epoch", INT, "epoch of the leader that wrote it", "batch header"),
    Column("timestamp", TIMESTAMP, "when it was written", unit="UTC"),
    Column(
        "type",
        STRING,
        "LEADER_CHANGE, KRAFT_VERSION, KRAFT_VOTERS, SNAPSHOT_HEADER, SNAPSHOT_FOOTER, UNKNOWN",
    ),
    Column("leader_id", INT, "the new leader", "LeaderChangeMessage.leaderId"),
    Column("voters", INTS, "those who may vote", "LeaderChangeMessage.voters, VotersRecord.voters"),
    Column("granting_voters", INTS, "those who voted for it", "….grantingVoters"),
    Column("kraft_version", INT, "the quorum's version", "KRaftVersionRecord.kraftVersion"),
    Column("payload", STRING, "the whole record as JSON"),
)


def read(
    task: MetadataTask, wanted: tuple[str, ...], _options: MetadataOptions
) -> Iterator[pa.RecordBatch]:
    """Raises DataUnreadable."""
    rows: list[tuple[Any, ...]] = []
    try:
        if task.snapshot is not None:
            path, end = task.snapshot.path, task.snapshot.end_offset - 1
            for position, batch in snapshot_batches(task.snapshot):
                rows += _rows(task, "snapshot", path, position, batch, end)
        for piece in task.ranges:
            for position, batch in batches_in(piece):
                rows += _rows(task, "log", piece.name, position, batch, None)
    except RemoteProtocolError as error:
        raise DataUnreadable(f"the metadata log of node {task.node_id}: {error}") from None
    yield rows_to_arrow(rows, COLUMNS, wanted)


def _rows(
    task: MetadataTask, source: str, path: str, position: int, batch: BatchView, at: int | None
) -> Iterator[tuple[Any, ...]]:
    if not batch.is_control:
        return
    for record in decode_records(batch):
        kind = decode_control_key(record.key or b"")
        unknown = kind is ControlType.UNKNOWN
        value = None if unknown else decode_control_value(kind, record.value or b"")
        yield (
            task.node_id,
            source,
            path,
            position,
            record.offset if at is None else at,
            batch.leader_epoch,
            record.timestamp_ms,
            kind.name,
            *_said(value),
            None if value is None else json.dumps(as_json(value), separators=(",", ":")),
        )


def _said(value: object) -> tuple[Any, Any, Any, Any]:
    """leader, voters, granting voters, version."""
    match value:
        case LeaderChangeMessage():
            voters = [v.voter_id for v in value.voters]
            return value.leader_id, voters, [v.voter_id for v in value.granting_voters], None
        case VotersRecord():
            return None, [v.voter_id for v in value.voters], None, None
        case KRaftVersionRecord():
            return None, None, None, value.kraft_version
        case _:
            return None, None, None, None


TABLE = Table(
    "control",
    "What the metadata log says of itself: leaders, voters, versions, heads and feet of snapshots.",
    COLUMNS,
    read,
    "node",
    frozenset(("nodes", "includeUncommitted", "includeSnapshots")),
)
