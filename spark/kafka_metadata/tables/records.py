"""`records`: every record of metadata logs, one row each, as JSON too. Secrets are hidden.

Column by column: only records whose fields are asked for are decoded, and only as JSON where `payload` is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from log.batches.batch import BatchView
from log.batches.columns import decode_columns
from log.batches.records import RECORDS_BYTES_MAX
from quorum.metadata.image import RESOURCE_TYPES, TOPIC_RESOURCE
from spark.column import BOOL, INT, LONG, STRING, TIMESTAMP, Column, schema_of, to_array
from spark.kafka_metadata.options import BOUND_OPTIONS, MetadataOptions
from spark.kafka_metadata.plan import MetadataTask
from spark.kafka_metadata.reading import batches_in, name_of
from spark.kafka_metadata.tables.table import Table, without_collector
from spark.kafka_metadata.tables.walk import snapshot_batches
from spark.origins.origin import DataUnreadable
from wire.errors import KafkaError, RemoteProtocolError
from wire.json_text import json_text
from wire.messages.control import ControlType, decode_control_key, decode_control_value
from wire.primitives import read_uvarint, uuid_to_text
from wire.records.configs import ConfigRecord
from wire.records.metadata import decode_metadata_record
from wire.records.topics import TopicRecord

CHUNK_ROWS = 5_000  # some MiB, as payloads are a few hundred bytes
CHUNK_BATCHES = 2_000
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

COLUMNS = (
    Column("node_id", INT, "whose log it is", "meta.properties"),
    Column("source", STRING, "log, snapshot"),
    Column("file", STRING, "the segment or snapshot"),
    Column("position", LONG, "where its batch begins", unit="bytes"),
    Column("base_offset", LONG, "first offset of its batch", "batch header"),
    Column("offset", LONG, "the record; of a snapshot: the last offset that it covers"),
    Column("epoch", INT, "epoch of the controller that wrote it", "batch header"),
    Column("timestamp", TIMESTAMP, "when it was written", unit="UTC"),
    Column("committed", BOOL, "a majority of the voters has it; null: nobody can tell"),
    Column("control", BOOL, "it is a control record", "batch header"),
    Column("type", STRING, "Kafka's name of the record; UNKNOWN_n of a later Kafka", "its frame"),
    Column("api_key", INT, "the number of its type", "its frame"),
    Column("version", INT, "its version", "its frame"),
    Column("topic_id", STRING, "where it has one", "….topicId"),
    Column("topic", STRING, "the name of that id, or of the config's topic", "TopicRecord.name"),
    Column("partition", INT, "where it has one", "….partitionId"),
    Column("broker_id", INT, "where it is of a broker", "….brokerId"),
    Column("resource_type", STRING, "of a config: topic, broker …", "ConfigRecord.resourceType"),
    Column("resource_name", STRING, "of a config or an ACL", "….resourceName"),
    Column("name", STRING, "of a topic, config, feature, user", "….name"),
    Column("payload", STRING, "the record as JSON, names as Kafka's in snake_case"),
    Column("size", INT, "its bytes", unit="bytes"),
)
_SCHEMA = schema_of(COLUMNS)
_DECODED = frozenset(
    ("type", "topic_id", "topic", "partition", "broker_id", "resource_type", "resource_name")
) | {"name", "payload"}
_WORDS = {number: word.lower().replace("_", "-") for number, word in RESOURCE_TYPES.items()}


@dataclass(slots=True)
class Chunk:
    """Records of some batches, an element of each list a record; `messages` None where not decoded."""

    task: MetadataTask
    source: str
    path: str
    batches: Sequence[tuple[int, BatchView]]
    index: Ints
    offset: Ints
    timestamp_ms: Ints
    values: list[bytes]
    keys: list[bytes]
    messages: list[Any]

    def __len__(self) -> int:
        return len(self.index)

    @property
    def controls(self) -> list[bool]:
        """Of each record, whether it is a control record."""
        return _taken([batch.is_control for _, batch in self.batches], self.index)

    def keep(self, wanted: Sequence[bool] | Flags) -> None:
        flags = np.asarray(wanted, np.bool_)
        self.index, self.offset = self.index[flags], self.offset[flags]
        self.timestamp_ms = self.timestamp_ms[flags]
        for name in ("values", "keys", "messages"):
            kept = [item for item, yes in zip(getattr(self, name), flags, strict=True) if yes]
            setattr(self, name, kept)


def _taken(each: Sequence[Any], index: Ints) -> list[Any]:
    return [each[i] for i in index.tolist()]


def read(
    task: MetadataTask, wanted: tuple[str, ...], options: MetadataOptions
) -> Iterator[pa.RecordBatch]:
    """Raises DataUnreadable."""
    decode = bool(_DECODED & set(wanted)) or bool(options.topics) or bool(options.record_types)
    chunks = each_chunk(
        task,
        decode=decode,
        include_control=options.include_control,
        verify_crc=options.verify_crc,
    )
    with without_collector():
        for chunk in chunks:
            if options.record_types:
                chunk.keep([kind in options.record_types for kind in _types(chunk)])
            if options.topics:
                chunk.keep([topic in options.topics for topic in _topics(chunk)])
            if len(chunk):
                yield _arrow(chunk, wanted)


def each_chunk(
    task: MetadataTask, *, decode: bool, include_control: bool = False, verify_crc: bool = True
) -> Iterator[Chunk]:
    """All records of a task in order: the snapshot's, then the log's. Raises DataUnreadable."""
    if task.snapshot is not None:
        batches = (
            located
            for located in snapshot_batches(task.snapshot)
            if include_control or not located[1].is_control
        )
        at = task.snapshot.end_offset - 1
        for some in _grouped(batches):
            chunk = _chunk(task, "snapshot", task.snapshot.path, some, range((1 << 63) - 1), decode)
            chunk.offset = np.full(len(chunk), at, np.int64)
            yield chunk
    for piece in task.ranges:
        inside = range(piece.start_offset, piece.end_offset)
        located = batches_in(piece, include_control=include_control, verify_crc=verify_crc)
        for some in _grouped(located):
            yield _chunk(task, "log", name_of(piece), some, inside, decode)


def _grouped(
    batches: Iterable[tuple[int, BatchView]],
) -> Iterator[list[tuple[int, BatchView]]]:
    some: list[tuple[int, BatchView]] = []
    records = 0
    for located in batches:
        some.append(located)
        records += located[1].count
        if records >= CHUNK_ROWS or len(some) >= CHUNK_BATCHES:
            yield some
            some, records = [], 0
    if some:
        yield some


def _chunk(
    task: MetadataTask,
    source: str,
    path: str,
    some: list[tuple[int, BatchView]],
    inside: range,
    decode: bool,
) -> Chunk:
    try:
        columns = decode_columns([batch for _, batch in some], RECORDS_BYTES_MAX)
        data = bytes(columns.data)
        values = [
            data[start : start + size] if size > 0 else b""
            for start, size in zip(columns.value_start, columns.value_size, strict=True)
        ]
        keys = [
            data[start : start + size] if size > 0 else b""
            for start, size in zip(columns.key_start, columns.key_size, strict=True)
        ]
        index = np.frombuffer(columns.batch, np.int32).astype(np.int64)
        chunk = Chunk(
            task,
            source,
            path,
            some,
            index,
            np.frombuffer(columns.offset, np.int64),
            np.frombuffer(columns.timestamp_ms, np.int64),
            values,
            keys,
            [None] * len(index),
        )
        chunk.keep((chunk.offset >= inside.start) & (chunk.offset < inside.stop))
        if decode:
            rows = zip(chunk.controls, chunk.keys, chunk.values, strict=True)
            chunk.messages = [
                _control(key, value) if control else _metadata(value)
                for control, key, value in rows
            ]
        return chunk
    except (RemoteProtocolError, KafkaError) as error:
        raise DataUnreadable(f"{path}, position {some[0][0]}: {error}") from None


def _metadata(value: bytes) -> Any:
    """None for a record of a later Kafka: shown without payload, never an end of the analysis."""
    try:
        return decode_metadata_record(value)
    except RemoteProtocolError:
        return None


def _control(key: bytes, value: bytes) -> Any:
    kind = decode_control_key(key)
    return None if kind is ControlType.UNKNOWN else decode_control_value(kind, value)


def topic_names(tasks: Iterable[MetadataTask]) -> dict[bytes, str]:
    """Names by topic id, from the TopicRecords; an id never changes its name."""
    names = {}
    for task in tasks:
        for chunk in each_chunk(task, decode=False):
            for value in chunk.values:
                if len(value) > 1 and value[1] == TopicRecord.KEY:
                    message = _metadata(value)
                    if isinstance(message, TopicRecord):
                        names[message.topic_id] = message.name
    return names


# --- columns


def _arrow(chunk: Chunk, wanted: Sequence[str]) -> pa.RecordBatch:
    schema = pa.schema([_SCHEMA.field(name) for name in wanted])
    arrays = [_array(chunk, name, schema.field(name).type) for name in wanted]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(chunk: Chunk, name: str, kind: pa.DataType) -> pa.Array:
    if name in _SAME:
        return pa.repeat(pa.scalar(_SAME[name](chunk), kind), len(chunk))
    if name in _OF_BATCH:
        each = to_array([_OF_BATCH[name](located) for located in chunk.batches], kind)
        return each.take(pa.array(chunk.index))
    if name in ("offset", "timestamp"):
        numbers = chunk.offset if name == "offset" else chunk.timestamp_ms * 1000
        return pa.array(numbers, pa.int64()).cast(kind)
    return to_array(_CELLS[name](chunk), kind)


_SAME: dict[str, Callable[[Chunk], Any]] = {
    "node_id": lambda c: c.task.node_id,
    "source": lambda c: c.source,
    "file": lambda c: c.path,
}
_OF_BATCH: dict[str, Callable[[tuple[int, BatchView]], Any]] = {
    "position": lambda located: located[0],
    "base_offset": lambda located: located[1].base_offset,
    "epoch": lambda located: located[1].leader_epoch,
    "control": lambda located: located[1].is_control,
}


def _attribute(name: str) -> Callable[[Chunk], list[Any]]:
    return lambda chunk: [getattr(message, name, None) for message in chunk.messages]


def _frame_number(at: int) -> Callable[[Chunk], list[int | None]]:
    """A number of the frame of metadata records: 0 frame version, 1 type, 2 version."""

    def cells(chunk: Chunk) -> list[int | None]:
        rows = zip(chunk.controls, chunk.values, strict=True)
        return [None if control else _frame(value, at) for control, value in rows]

    return cells


def _frame(value: bytes, at: int) -> int | None:
    if len(value) > 2 and value[1] < 0x80 and value[2] < 0x80:
        return value[at]  # every record that exists so far
    position, number = 0, None
    try:
        for _ in range(at + 1):
            number, position = read_uvarint(value, position)
    except RemoteProtocolError:
        return None
    return number


def _types(chunk: Chunk) -> list[str]:
    rows = zip(chunk.controls, chunk.messages, chunk.values, chunk.keys, strict=True)
    return [
        decode_control_key(key).name
        if control
        else f"UNKNOWN_{_frame(value, 1)}"
        if message is None
        else type(message).__name__
        for control, message, value, key in rows
    ]


def _topics(chunk: Chunk) -> list[str | None]:
    names = chunk.task.names
    return [_topic(message, names) for message in chunk.messages]


def _topic(message: Any, names: Mapping[bytes, str]) -> str | None:
    topic_id = getattr(message, "topic_id", None)
    if topic_id is not None:
        return message.name if isinstance(message, TopicRecord) else names.get(topic_id)
    if isinstance(message, ConfigRecord):
        return message.resource_name if message.resource_type == TOPIC_RESOURCE else None
    return getattr(message, "topic_name", None)


def _topic_ids(chunk: Chunk) -> list[str | None]:
    return [_id_text(getattr(message, "topic_id", None)) for message in chunk.messages]


@lru_cache(maxsize=1 << 14)
def _id_text(topic_id: bytes | None) -> str | None:
    return None if topic_id is None else uuid_to_text(topic_id)


def _broker_ids(chunk: Chunk) -> list[int | None]:
    return [_broker_id(message) for message in chunk.messages]


def _broker_id(message: Any) -> int | None:
    """Older records call it `id`, as those of other things call theirs."""
    is_broker = "Broker" in type(message).__name__
    return getattr(message, "broker_id", getattr(message, "id", None) if is_broker else None)


def _resource_types(chunk: Chunk) -> list[str | None]:
    return [
        _WORDS.get(message.resource_type, str(message.resource_type))
        if isinstance(message, ConfigRecord)
        else None
        for message in chunk.messages
    ]


def _payloads(chunk: Chunk) -> list[str | None]:
    return [None if message is None else json_text(message) for message in chunk.messages]


def _committed(chunk: Chunk) -> list[bool | None]:
    if chunk.source == "snapshot":
        return [True] * len(chunk)
    end = chunk.task.committed_end
    if end is None:
        return [None] * len(chunk)
    return list((chunk.offset < end).tolist())


_CELLS: dict[str, Callable[[Chunk], Sequence[Any]]] = {
    "committed": _committed,
    "type": _types,
    "api_key": _frame_number(1),
    "version": _frame_number(2),
    "topic_id": _topic_ids,
    "topic": _topics,
    "partition": _attribute("partition_id"),
    "broker_id": _broker_ids,
    "resource_type": _resource_types,
    "resource_name": _attribute("resource_name"),
    "name": _attribute("name"),
    "payload": _payloads,
    "size": lambda c: [len(value) for value in c.values],
}


TABLE = Table(
    "records",
    "Every record of the metadata log, one row each, as JSON too; secrets are hidden.",
    COLUMNS,
    read,
    "node",
    frozenset(
        (
            *BOUND_OPTIONS,
            "nodes",
            "recordTypes",
            "topics",
            "includeControl",
            "includeUncommitted",
            "includeSnapshots",
            "verifyCrc",
        )
    ),
)
