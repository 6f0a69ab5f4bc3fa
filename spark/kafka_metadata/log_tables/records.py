"""`records`: every record of metadata logs, one row each, also as JSON. Secrets are hidden.

It is built column by column: records are decoded only for columns that need it, and converted to JSON only for
`payload`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import compress
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trimaran.log.batches.batch import BatchView
from trimaran.log.batches.columns import decode_columns
from trimaran.log.batches.records import RECORDS_BYTES_MAX
from trimaran.quorum.metadata.image import RESOURCE_TYPES, TOPIC_RESOURCE, UnknownRecords
from trimaran.spark.data_source.columns import (
    BOOL,
    INT,
    LONG,
    STRING,
    TIMESTAMP,
    Codes,
    Column,
    schema_of,
    timestamps,
    to_array,
)
from trimaran.spark.kafka_metadata.log_walk.decoding import FRAME_BYTES, decode_messages
from trimaran.spark.kafka_metadata.log_walk.fold import report_unknown
from trimaran.spark.kafka_metadata.log_walk.walk import batches_in, snapshot_batches
from trimaran.spark.kafka_metadata.options import BOUND_OPTIONS, MetadataOptions
from trimaran.spark.kafka_metadata.plan import MetadataTask
from trimaran.spark.kafka_metadata.table import Table, without_collector
from trimaran.spark.origins.origin import DataUnreadable
from trimaran.wire.buffers.primitives import read_uvarint, uuid_to_text
from trimaran.wire.errors import KafkaError, RemoteProtocolError
from trimaran.wire.identity import NO_TIMESTAMP, BrokerId
from trimaran.wire.messages.control import ControlType, decode_control_key, decode_control_value
from trimaran.wire.records.configs import ConfigRecord
from trimaran.wire.records.metadata import UnknownRecord
from trimaran.wire.records.topics import TopicRecord
from trimaran.wire.text.json_text import json_text

CHUNK_ROWS = 5_000  # a chunk takes a few MiB, since payloads have a few hundred bytes
CHUNK_BATCHES = 2_000
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
_TOPIC_KEYS = frozenset((TopicRecord.KEY,))

_DECODED = frozenset(
    ("type", "topic_id", "topic", "partition", "broker_id", "resource_type", "resource_name")
) | {"name", "payload"}
_WORDS = {number: word.lower().replace("_", "-") for number, word in RESOURCE_TYPES.items()}


@dataclass(slots=True)
class MetadataChunk:
    """The records of some batches; each column has an element for each record. `messages` is empty if they are not
    decoded.
    """

    task: MetadataTask
    source: str
    path: str
    batches: Sequence[tuple[int, BatchView]]
    data: bytes  # the bytes with the keys and values
    index: Ints  # the indexes of the batches
    offset: Ints
    timestamp_ms: Ints
    start: Ints  # the positions of the values
    size: Ints  # 0 for a null value
    keys: list[bytes]  # the keys of control records; empty if there are none
    messages: list[Any]

    def __len__(self) -> int:
        return len(self.index)

    @property
    def controls(self) -> Flags:
        """Returns for each record whether it is a control record."""
        return np.array([batch.is_control for _, batch in self.batches], np.bool_)[self.index]

    def keep(self, wanted: Sequence[bool] | Flags) -> None:
        flags = np.asarray(wanted, np.bool_)
        if flags.all():
            return
        for name in ("index", "offset", "timestamp_ms", "start", "size"):
            setattr(self, name, getattr(self, name)[flags])
        kept = flags.tolist()
        self.keys = list(compress(self.keys, kept))
        self.messages = list(compress(self.messages, kept))

    @property
    def values(self) -> Iterator[bytes]:
        for start, size in zip(self.start.tolist(), self.size.tolist(), strict=True):
            yield self.data[start : start + size]


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
                chunk.keep([kind in options.record_types for kind in _types(chunk).to_pylist()])
            if options.topics:
                topics = _topics(chunk.messages, task.names)
                chunk.keep([topic in options.topics for topic in topics])
            if len(chunk):
                yield _arrow(chunk, wanted)


def each_chunk(
    task: MetadataTask, *, decode: bool, include_control: bool = False, verify_crc: bool = True
) -> Iterator[MetadataChunk]:
    """Yields all records of a task in order: first the records of the snapshot, then those of the log. Raises
    DataUnreadable.
    """
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
            yield _chunk(task, "log", piece.name, some, inside, decode)


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
) -> MetadataChunk:
    try:
        columns = decode_columns([batch for _, batch in some], RECORDS_BYTES_MAX)
        has_controls = any(batch.is_control for _, batch in some)
        chunk = MetadataChunk(
            task,
            source,
            path,
            some,
            bytes(columns.data),
            np.frombuffer(columns.batch, np.int32).astype(np.int64),
            np.frombuffer(columns.offset, np.int64),
            np.frombuffer(columns.timestamp_ms, np.int64),
            np.frombuffer(columns.value_start, np.int32).astype(np.int64),
            np.maximum(0, np.frombuffer(columns.value_size, np.int32)).astype(np.int64),
            [key or b"" for key in columns.keys()] if has_controls else [],  # noqa: SIM118 - no mapping
            [],
        )
        chunk.keep((chunk.offset >= inside.start) & (chunk.offset < inside.stop))
        if decode:
            chunk.messages = _messages(chunk)
        return chunk
    except (RemoteProtocolError, KafkaError) as error:
        raise DataUnreadable(f"{path}, position {some[0][0]}: {error}") from None


def _messages(chunk: MetadataChunk) -> list[Any]:
    if not chunk.keys:
        return decode_messages(chunk.data, chunk.start.tolist(), chunk.size.tolist())
    rows = zip(chunk.controls.tolist(), chunk.keys, chunk.values, strict=True)
    return [
        _control(key, value) if is_control else decode_messages(value, (0,), (len(value),))[0]
        for is_control, key, value in rows
    ]


def _control(key: bytes, value: bytes) -> Any:
    kind = decode_control_key(key)
    return None if kind is ControlType.UNKNOWN else decode_control_value(kind, value)


def topic_names(tasks: Iterable[MetadataTask]) -> dict[bytes, str]:
    """Returns the names by topic id, from the TopicRecords; the name of an id never changes. Warns of records that were
    not understood, which may name further topics.
    """
    names = {}
    unknown = UnknownRecords()
    for task in tasks:
        for chunk in each_chunk(task, decode=False):
            values = chunk.start.tolist(), chunk.size.tolist()
            for message in decode_messages(chunk.data, *values, _TOPIC_KEYS, tells_unknown=True):
                if isinstance(message, UnknownRecord):
                    unknown = unknown.plus(1, [message])
                elif message is not None:
                    names[message.topic_id] = message.name
    report_unknown("the column topic", unknown.text)
    return names


# --- columns


Value = Callable[[MetadataChunk], "pa.Array | Sequence[Any]"]  # the type of `Column.value` here


def _arrow(chunk: MetadataChunk, wanted: Sequence[str]) -> pa.RecordBatch:
    chosen = [_BY_NAME[name] for name in wanted]
    arrays = [_array(column.value(chunk), column.kind) for column in chosen]
    return pa.RecordBatch.from_arrays(arrays, schema=schema_of(chosen))


def _array(made: pa.Array | Sequence[Any], kind: pa.DataType) -> pa.Array:
    return made.cast(kind) if isinstance(made, pa.Array) else to_array(made, kind)


def _same(value: Callable[[MetadataChunk], Any]) -> Value:
    """Returns the value of a column that is the same in all rows of a chunk."""
    return lambda chunk: pa.repeat(value(chunk), len(chunk))


def _of_batch(value: Callable[[tuple[int, BatchView]], Any]) -> Value:
    """Returns the value of a column that is the same in all records of a batch, by its position and the batch."""
    return lambda chunk: pa.array(list(map(value, chunk.batches))).take(pa.array(chunk.index))


def _frame_numbers(chunk: MetadataChunk, at: int) -> pa.Array:
    """Returns a number of the frames of metadata records; null for control records and for frames without that
    number.
    """
    data = np.frombuffer(chunk.data, np.uint8)
    is_short = chunk.size < FRAME_BYTES
    starts = np.where(is_short, 0, chunk.start)
    numbers = [data[starts + i].astype(np.int64) if len(data) else chunk.size * 0 for i in (1, 2)]
    is_odd = is_short | (numbers[0] > 0x7F) | (numbers[1] > 0x7F)
    found, absent = numbers[at - 1], chunk.controls
    for row in np.flatnonzero(is_odd & ~absent).tolist():
        start = int(chunk.start[row])
        number = _frame(chunk.data[start : start + int(chunk.size[row])], at)
        absent[row], found[row] = number is None, number or 0
    return pa.array(found, mask=absent)


def _frame(value: bytes, at: int) -> int | None:
    position, number = 0, None
    try:
        for _ in range(at + 1):
            number, position = read_uvarint(value, position)
    except RemoteProtocolError:
        return None
    return number


def _types(chunk: MetadataChunk) -> pa.Array:
    """Returns the names of the types; there are few, so each is converted once for a chunk."""
    kinds = list(map(type, chunk.messages))
    names = Codes()
    each = np.fromiter(map(names.__getitem__, [kind.__name__ for kind in kinds]), np.int32)
    shown = pa.array(list(names), pa.string()).take(pa.array(each))
    if type(None) not in kinds and not chunk.keys:
        return shown
    numbers = _frame_numbers(chunk, 1).to_pylist()
    keys = chunk.keys or [b""] * len(chunk)
    rows = zip(chunk.controls.tolist(), chunk.messages, kinds, numbers, keys, strict=True)
    return pa.array(
        [
            decode_control_key(key).name
            if is_control
            else f"UNKNOWN_{number}"
            if message is None
            else kind.__name__
            for is_control, message, kind, number, key in rows
        ],
        pa.string(),
    )


# Takes messages and the names of topics.
Cells = Callable[[Sequence[Any], Mapping[bytes, str]], Sequence[Any]]


def _of_messages(applies: Callable[[type], bool], cells: Cells) -> Value:
    """Returns the value of a column that is computed from decoded messages; null for messages of other classes."""

    def value(chunk: MetadataChunk) -> pa.Array | Sequence[Any]:
        if not any(map(applies, set(map(type, chunk.messages)))):
            return pa.nulls(len(chunk))
        return cells(chunk.messages, chunk.task.names)

    return value


def _has(*fields: str) -> Callable[[type], bool]:
    return lambda kind: any(hasattr(kind, field) for field in fields)


def _attribute(field: str) -> Value:
    return _of_messages(
        _has(field), lambda messages, _: [getattr(message, field, None) for message in messages]
    )


def _has_topic(kind: type) -> bool:
    return _is_config(kind) or _has("topic_id", "topic_name")(kind)


def _is_config(kind: type) -> bool:
    return kind is ConfigRecord


def _is_known(kind: type) -> bool:
    return kind is not type(None)


def _topics(messages: Sequence[Any], names: Mapping[bytes, str]) -> list[str | None]:
    return [_topic(message, names) for message in messages]


def _topic(message: Any, names: Mapping[bytes, str]) -> str | None:
    topic_id = getattr(message, "topic_id", None)
    if topic_id is not None:
        return message.name if type(message) is TopicRecord else names.get(topic_id)
    if isinstance(message, ConfigRecord):
        return message.resource_name if message.resource_type == TOPIC_RESOURCE else None
    return getattr(message, "topic_name", None)


def _topic_ids(messages: Sequence[Any], _: Mapping[bytes, str]) -> list[str | None]:
    return [_id_text(getattr(message, "topic_id", None)) for message in messages]


@lru_cache(maxsize=1 << 14)
def _id_text(topic_id: bytes | None) -> str | None:
    return None if topic_id is None else uuid_to_text(topic_id)


def _is_broker(kind: type) -> bool:
    return hasattr(kind, "broker_id") or "Broker" in kind.__name__


def _broker_ids(messages: Sequence[Any], _: Mapping[bytes, str]) -> list[BrokerId | None]:
    return [_broker_id(message) for message in messages]


def _broker_id(message: Any) -> BrokerId | None:
    """Returns the broker id of a record; older records have it in `id`, which in other records is another id."""
    is_broker = "Broker" in type(message).__name__
    return getattr(message, "broker_id", getattr(message, "id", None) if is_broker else None)


def _resource_types(messages: Sequence[Any], _: Mapping[bytes, str]) -> list[str | None]:
    return [
        _WORDS.get(message.resource_type, str(message.resource_type))
        if isinstance(message, ConfigRecord)
        else None
        for message in messages
    ]


def _payloads(messages: Sequence[Any], _: Mapping[bytes, str]) -> list[str | None]:
    return [None if message is None else json_text(message) for message in messages]


def _committed(chunk: MetadataChunk) -> list[bool | None]:
    if chunk.source == "snapshot":
        return [True] * len(chunk)
    end = chunk.task.committed_end
    if end is None:
        return [None] * len(chunk)
    return list((chunk.offset < end).tolist())


# fmt: off
COLUMNS = (
    Column("node_id", INT, _same(lambda chunk: chunk.task.node_id), "the node of the log", "meta.properties"),
    Column("source", STRING, _same(lambda chunk: chunk.source), "log, snapshot"),
    Column("file", STRING, _same(lambda chunk: chunk.path), "the segment or snapshot"),
    Column("position", LONG, _of_batch(lambda located: located[0]), "where its batch begins", unit="bytes"),
    Column("base_offset", LONG, _of_batch(lambda located: located[1].base_offset), "first offset of its batch",
           "batch header"),
    Column("offset", LONG, lambda chunk: pa.array(chunk.offset),
           "the record; of a snapshot: the last offset that it covers"),
    Column("epoch", INT, _of_batch(lambda located: located[1].leader_epoch), "epoch of the controller that wrote it",
           "batch header"),
    Column("timestamp", TIMESTAMP, lambda chunk: timestamps(chunk.timestamp_ms, absent=NO_TIMESTAMP),
           "when it was written", unit="UTC"),
    Column("committed", BOOL, _committed, "a majority of the voters has it; null: unknown"),
    Column("control", BOOL, _of_batch(lambda located: located[1].is_control), "it is a control record", "batch header"),
    Column("type", STRING, _types, "Kafka's name of the record; UNKNOWN_n of a later Kafka", "its frame"),
    Column("api_key", INT, lambda chunk: _frame_numbers(chunk, 1), "the number of its type", "its frame"),
    Column("version", INT, lambda chunk: _frame_numbers(chunk, 2), "its version", "its frame"),
    Column("topic_id", STRING, _of_messages(_has("topic_id"), _topic_ids), "if it has one", "….topicId"),
    Column("topic", STRING, _of_messages(_has_topic, _topics), "the name of that id, or of the config's topic",
           "TopicRecord.name"),
    Column("partition", INT, _attribute("partition_id"), "if it has one", "….partitionId"),
    Column("broker_id", INT, _of_messages(_is_broker, _broker_ids), "if it concerns a broker", "….brokerId"),
    Column("resource_type", STRING, _of_messages(_is_config, _resource_types), "of a config: topic, broker …",
           "ConfigRecord.resourceType"),
    Column("resource_name", STRING, _attribute("resource_name"), "of a config or an ACL", "….resourceName"),
    Column("name", STRING, _attribute("name"), "of a topic, config, feature, user", "….name"),
    Column("payload", STRING, _of_messages(_is_known, _payloads), "the record as JSON, names as Kafka's in snake_case"),
    Column("size", INT, lambda chunk: pa.array(chunk.size), "its bytes", unit="bytes"),
)
# fmt: on
_BY_NAME = {column.name: column for column in COLUMNS}


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
