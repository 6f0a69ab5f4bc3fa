"""Metadata records one by one, from segments and snapshots, and as rows of the `records` table. Pure, without Spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from log.batches.batch import BatchView
from log.batches.records import Record, decode_records
from log.inspection.reader import scan_batches
from spark.kafka_log.read import TIMESTAMP, Wanted, batches_of
from spark.kafka_metadata.plan import MetadataTask, Snapshot
from spark.origins.origin import DataUnreadable
from wire.as_json import as_json
from wire.declarations import Struct
from wire.errors import KafkaError, RemoteProtocolError
from wire.messages.control import ControlType, decode_control_key, decode_control_value
from wire.primitives import read_uvarint, uuid_to_text
from wire.records.configs import ConfigRecord
from wire.records.metadata import decode_metadata_record
from wire.records.topics import TopicRecord

CHUNK_ROWS = 5_000  # some MiB, as payloads are a few hundred bytes
TOPIC_RECORD_START = bytes((1, TopicRecord.KEY))  # frame version and type: both fit one byte


class Found(NamedTuple):
    """A record and where it lies; `message` None when its type or version is unknown to us."""

    source: str  # log, snapshot
    path: str
    position: int
    batch: BatchView
    record: Record
    message: Struct | None
    offset: int


def each_record(task: MetadataTask, wanted: Wanted, *, decode: bool = True) -> Iterator[Found]:
    """All records of a task in order: the snapshot's, then the log's. Control records too if they are wanted.

    Raises:
        DataUnreadable: damaged data.
    """
    if task.snapshot is not None:
        for position, batch in _snapshot_batches(task.snapshot):
            if wanted.include_control or not batch.is_control:
                path, offset = task.snapshot.path, task.snapshot.end_offset - 1
                yield from _records("snapshot", path, position, batch, decode, offset)
    for piece in task.ranges:
        for position, batch in batches_of(piece, wanted):
            for found in _records("log", piece.path, position, batch, decode, None):
                if piece.start_offset <= found.offset < piece.end_offset:
                    yield found


def _snapshot_batches(snapshot: Snapshot) -> Iterator[tuple[int, BatchView]]:
    end = 0
    for position, batch in scan_batches(snapshot.path):
        end = position + batch.size
        yield position, batch
    if end != Path(snapshot.path).stat().st_size:
        raise DataUnreadable(f"{snapshot.path}: damaged at position {end}")


def _records(
    source: str, path: str, position: int, batch: BatchView, decode: bool, at: int | None
) -> Iterator[Found]:
    """`at`: the offset that stands for all, as a snapshot's own offsets mean nothing."""
    try:
        for record in decode_records(batch):
            message = _message(batch, record) if decode else None
            offset = record.offset if at is None else at
            yield Found(source, path, position, batch, record, message, offset)
    except (RemoteProtocolError, KafkaError) as error:
        raise DataUnreadable(f"{path}, position {position}: {error}") from None


def _message(batch: BatchView, record: Record) -> Struct | None:
    try:
        if not batch.is_control:
            return decode_metadata_record(record.value or b"")
        kind = decode_control_key(record.key or b"")
        return (
            None if kind is ControlType.UNKNOWN else decode_control_value(kind, record.value or b"")
        )
    except RemoteProtocolError:
        return None  # of a later Kafka: shown without payload, never an end of the analysis


def topic_names(tasks: Iterable[MetadataTask]) -> dict[bytes, str]:
    """Names by topic id, from the TopicRecords; an id never changes its name."""
    names = {}
    for task in tasks:
        for found in each_record(task, Wanted(()), decode=False):
            if (found.record.value or b"").startswith(TOPIC_RECORD_START):
                message = _message(found.batch, found.record)
                if isinstance(message, TopicRecord):
                    names[message.topic_id] = message.name
    return names


# --- JSON
# --------------------------------------------------------------------------------------------------------------


def payload_of(message: Struct) -> str:
    """The record as JSON, fields as Kafka names them in snake_case, UUIDs as Kafka's text, bytes as base64; secrets are
    hidden.
    """
    return json.dumps(as_json(message), separators=(",", ":"))


# --- rows
# --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RowContext:
    """What a row needs besides its record."""

    task: MetadataTask
    names: Mapping[bytes, str]


def _type_of(found: Found) -> str:
    if found.message is not None and not found.batch.is_control:
        return type(found.message).__name__
    if found.batch.is_control:
        return decode_control_key(found.record.key or b"").name
    return f"UNKNOWN_{_api_key(found)}"


def _api_key(found: Found) -> int | None:
    return None if found.batch.is_control else _uvarint_after(found, 1)


def _version(found: Found) -> int | None:
    return None if found.batch.is_control else _uvarint_after(found, 2)


def _uvarint_after(found: Found, index: int) -> int | None:
    """A number of the frame: 0 frame version, 1 type, 2 version."""
    position, number = 0, None
    try:
        for _ in range(index + 1):
            number, position = read_uvarint(found.record.value or b"", position)
    except RemoteProtocolError:
        return None
    return number


def _attribute(*names: str) -> Callable[[RowContext, Found], Any]:
    """The first of these fields that the record has."""

    def get(_: RowContext, found: Found) -> Any:
        for name in names:
            value = getattr(found.message, name, None)
            if value is not None:
                return value
        return None

    return get


def _topic_id(_: RowContext, found: Found) -> str | None:
    topic_id = getattr(found.message, "topic_id", None)
    return None if topic_id is None else uuid_to_text(topic_id)


def _topic(context: RowContext, found: Found) -> str | None:
    match found.message:
        case TopicRecord() as message:
            return message.name
        case ConfigRecord(resource_type=2) as message:
            return message.resource_name
        case _:
            pass
    return context.names.get(getattr(found.message, "topic_id", b"")) or getattr(
        found.message, "topic_name", None
    )


def _broker_id(_: RowContext, found: Found) -> int | None:
    name = type(found.message).__name__
    if "Broker" not in name:
        return None
    message: Any = found.message
    return getattr(message, "broker_id", getattr(message, "id", None))


RESOURCE_TYPES = {2: "topic", 4: "broker", 8: "broker-logger", 16: "client-metrics", 32: "group"}


def _resource_type(_: RowContext, found: Found) -> str | None:
    if not isinstance(found.message, ConfigRecord):
        return None
    number = found.message.resource_type
    return RESOURCE_TYPES.get(number, str(number))


def _payload(_: RowContext, found: Found) -> str | None:
    return None if found.message is None else payload_of(found.message)


COLUMNS: dict[str, tuple[pa.DataType, Callable[[RowContext, Found], Any]]] = {
    "node_id": (pa.int32(), lambda c, _: c.task.node_id),
    "source": (pa.string(), lambda _, f: f.source),
    "file": (pa.string(), lambda _, f: f.path),
    "position": (pa.int64(), lambda _, f: f.position),
    "base_offset": (pa.int64(), lambda _, f: f.batch.base_offset),
    "offset": (pa.int64(), lambda _, f: f.offset),
    "epoch": (pa.int32(), lambda _, f: f.batch.leader_epoch),
    "timestamp": (TIMESTAMP, lambda _, f: f.record.timestamp_ms * 1000),
    "committed": (
        pa.bool_(),
        lambda c, f: True if f.source == "snapshot" else c.task.is_committed(f.offset),
    ),
    "control": (pa.bool_(), lambda _, f: f.batch.is_control),
    "type": (pa.string(), lambda _, f: _type_of(f)),
    "api_key": (pa.int32(), lambda _, f: _api_key(f)),
    "version": (pa.int32(), lambda _, f: _version(f)),
    "topic_id": (pa.string(), _topic_id),
    "topic": (pa.string(), _topic),
    "partition": (pa.int32(), _attribute("partition_id")),
    "broker_id": (pa.int32(), _broker_id),
    "resource_type": (pa.string(), _resource_type),
    "resource_name": (pa.string(), _attribute("resource_name")),
    "name": (pa.string(), _attribute("name")),
    "payload": (pa.string(), _payload),
    "size": (pa.int32(), lambda _, f: len(f.record.value or b"")),
}
SCHEMA = pa.schema([(name, kind) for name, (kind, _) in COLUMNS.items()])


def read_metadata_records(
    task: MetadataTask, wanted: Wanted, types: frozenset[str], names: Mapping[bytes, str]
) -> Iterator[pa.RecordBatch]:
    """Rows of the `records` table; `types` empty takes all. Raises DataUnreadable."""
    context = RowContext(task, names)
    chunk: list[Found] = []
    for found in each_record(task, wanted):
        if not types or _type_of(found) in types:
            chunk.append(found)
        if len(chunk) >= CHUNK_ROWS:
            yield _rows(context, chunk, wanted)
            chunk = []
    if chunk:
        yield _rows(context, chunk, wanted)


def _rows(context: RowContext, chunk: list[Found], wanted: Wanted) -> pa.RecordBatch:
    arrays = []
    for name in wanted.columns:
        kind, value = COLUMNS[name]
        arrays.append(pa.array([value(context, found) for found in chunk], kind))
    return pa.RecordBatch.from_arrays(
        arrays, schema=pa.schema([SCHEMA.field(name) for name in wanted.columns])
    )
