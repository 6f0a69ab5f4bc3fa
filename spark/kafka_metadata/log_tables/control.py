"""`control`: the control records of the metadata log: leaders, voters, versions, headers and footers of snapshots."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

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
    field,
    rows_to_arrow,
)
from trimaran.spark.kafka_metadata.log_walk.walk import batches_in, snapshot_batches
from trimaran.spark.kafka_metadata.options import MetadataOptions
from trimaran.spark.kafka_metadata.plan import MetadataTask
from trimaran.spark.kafka_metadata.table import Table
from trimaran.spark.origins.origin import DataUnreadable
from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.identity import NodeId, Offset
from trimaran.wire.messages.control import (
    ControlType,
    LeaderChangeMessage,
    VotersRecord,
    decode_control_key,
    decode_control_value,
)
from trimaran.wire.text.as_json import as_json

# fmt: off
COLUMNS = (
    Column("node_id", INT, field("task.node_id"), "the node of the log", "meta.properties"),
    Column("source", STRING, field("source"), "log, snapshot"),
    Column("file", STRING, field("path"), "the segment or snapshot"),
    Column("position", LONG, field("position"), "where its batch begins", unit="bytes"),
    Column("offset", LONG, field("offset"), "the record; of a snapshot: the last offset that it covers"),
    Column("epoch", INT, field("batch.leader_epoch"), "epoch of the leader that wrote it", "batch header"),
    Column("timestamp", TIMESTAMP, field("timestamp_ms"), "when it was written", unit="UTC"),
    Column("type", STRING, field("kind.name"),
           "LEADER_CHANGE, KRAFT_VERSION, KRAFT_VOTERS, SNAPSHOT_HEADER, SNAPSHOT_FOOTER, UNKNOWN"),
    Column("leader_id", INT, field("leader_id"), "the new leader", "LeaderChangeMessage.leaderId"),
    Column("voters", INTS, field("voters"), "the voters", "LeaderChangeMessage.voters, VotersRecord.voters"),
    Column("granting_voters", INTS, field("granting_voters"), "the voters that elected it", "….grantingVoters"),
    Column("kraft_version", INT, field("kraft_version"), "the quorum's version", "KRaftVersionRecord.kraftVersion"),
    Column("payload", STRING, field("payload"), "the whole record as JSON"),
)
# fmt: on


class ControlRow(NamedTuple):
    """A row: a control record of a batch; `message` is None for an unknown type."""

    task: MetadataTask
    source: str
    path: str
    position: int
    batch: BatchView
    offset: Offset
    timestamp_ms: int
    kind: ControlType
    message: Any

    @property
    def leader_id(self) -> NodeId | None:
        return getattr(self.message, "leader_id", None)

    @property
    def voters(self) -> list[NodeId] | None:
        if not isinstance(self.message, LeaderChangeMessage | VotersRecord):
            return None
        return [voter.voter_id for voter in self.message.voters]

    @property
    def granting_voters(self) -> list[NodeId] | None:
        if not isinstance(self.message, LeaderChangeMessage):
            return None
        return [voter.voter_id for voter in self.message.granting_voters]

    @property
    def kraft_version(self) -> int | None:
        return getattr(self.message, "kraft_version", None)

    @property
    def payload(self) -> str | None:
        if self.message is None:
            return None
        return json.dumps(as_json(self.message), separators=(",", ":"))


def read(
    task: MetadataTask, wanted: tuple[str, ...], _options: MetadataOptions
) -> Iterator[pa.RecordBatch]:
    """Yields the rows. Raises DataUnreadable."""
    rows: list[ControlRow] = []
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
    task: MetadataTask, source: str, path: str, position: int, batch: BatchView, at: Offset | None
) -> Iterator[ControlRow]:
    if not batch.is_control:
        return
    for record in decode_records(batch):
        kind = decode_control_key(record.key or b"")
        unknown = kind is ControlType.UNKNOWN
        value = None if unknown else decode_control_value(kind, record.value or b"")
        offset = Offset(record.offset) if at is None else at
        yield ControlRow(
            task, source, path, position, batch, offset, record.timestamp_ms, kind, value
        )


TABLE = Table(
    "control",
    "The control records of the metadata log: leaders, voters, versions, headers and footers of snapshots.",
    COLUMNS,
    read,
    "node",
    frozenset(("nodes", "includeUncommitted", "includeSnapshots")),
)
