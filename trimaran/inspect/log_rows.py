"""Segments and partition directories as rows, for `trimaran logs dump`. They may have any format, ours or Apache
Kafka's, and may be in use; nothing is written.

Rows have the column names of Spark's `kafka_log` (`spark/read.py`), times in milliseconds, bytes in base64.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trimaran.errors.user_error import Exit, UserError
from trimaran.inspect.metadata.records import typed
from trimaran.log.batches.batch import BatchView, has_valid_crc
from trimaran.log.batches.control_records import ControlRecord, read_control_records
from trimaran.log.batches.records import Record, iter_records
from trimaran.log.directories.meta_properties import MetaProperties, MetaPropertiesError
from trimaran.log.disk.checkpoints import LOG_START_OFFSETS, CheckpointDamaged, read_offsets
from trimaran.log.inspection.reader import SegmentFile, list_segments, scan_batches
from trimaran.log.old_formats.old_batches import as_v2, timestamp_type_id
from trimaran.log.partitions.names import parse_directory_name
from trimaran.log.producers.state import ProducerState
from trimaran.log.segments.recovery import base_offset_of
from trimaran.log.segments.segment import LOG_SUFFIX
from trimaran.quorum.raft_log.partition import TOPIC
from trimaran.wire.errors import KafkaError, RemoteProtocolError
from trimaran.wire.identity import NodeId, Offset, ProducerId, TopicPartition
from trimaran.wire.records.coordinator import decode_coordinator_record
from trimaran.wire.records.metadata import FRAME_VERSION, UnknownRecord, read_metadata_record
from trimaran.wire.records.registry import COORDINATOR_RECORDS
from trimaran.wire.text.as_json import HIDDEN, as_json, base64_text, holds_secret

Row = dict[str, Any]

_METADATA_FRAME = bytes([FRAME_VERSION])

# Headers of a record that are shown: a batch of a few kilobytes may have millions. A row has the number of omitted
# ones.
HEADERS_SHOWN = 10_000


@dataclass(frozen=True, slots=True)
class PartitionFiles:
    """Segments of one partition, to be printed; `partition` is None if the directory's name does not contain it.

    Records below `log_start_offset` were deleted (retention, DeleteRecords), though their segment still exists; no
    consumer gets them. It is 0 if there is no checkpoint beside the directory.
    """

    directory: Path
    segments: tuple[SegmentFile, ...]
    partition: TopicPartition | None
    node_id: NodeId | None = None  # if `meta.properties` beside the directory has it
    log_start_offset: Offset = Offset(0)


@dataclass(slots=True)
class LogTransactions:
    """The transactions of a whole log: its stable offset, and the aborted ranges."""

    stable_offset: Offset
    _aborted: dict[int, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))

    def add(self, producer_id: ProducerId, first_offset: Offset, last_offset: Offset) -> None:
        """Adds a transaction; they are added in the order of their ends, and those of one producer do not overlap."""
        self._aborted[producer_id].append((first_offset, last_offset))

    def is_aborted(self, batch: BatchView) -> bool:
        ranges = self._aborted.get(batch.producer_id) if batch.is_transactional else None
        if not ranges:
            return False
        at = bisect_right(ranges, (batch.base_offset, batch.base_offset)) - 1
        return any(a <= batch.base_offset <= b for a, b in ranges[max(at, 0) : at + 2])


def find_sources(paths: Iterable[Path]) -> tuple[list[PartitionFiles], list[Path]]:
    """Returns the segments in `.log` files, partition directories and node directories, in the given order, and the
    paths that contain none.

    Raises UserError if a path does not exist, or if no path contains a segment.
    """
    found: list[PartitionFiles] = []
    empty: list[Path] = []
    for path in paths:
        here = list(_sources_at(path))
        found += here
        if not here:
            if not path.exists():
                raise _no_log(path, "no such file or directory")
            empty.append(path)
    if empty and not found:
        raise _no_log(empty[0], NO_LOG)
    if not found:
        raise UserError(
            "no path was given", "there is nothing to read", LOG_HINT, exit_code=Exit.USAGE
        )
    return found, empty


NO_LOG = "it is not a .log file, nor a directory with .log files or partitions"

LOG_HINT = (
    "name a segment, a partition's directory such as orders-0, or the log directory of a node"
)


def _no_log(path: Path, why: str) -> UserError:
    return UserError(
        f"no log in {path}",
        why,
        LOG_HINT,
        exit_code=Exit.USAGE,
    )


def _sources_at(path: Path) -> Iterator[PartitionFiles]:
    if path.is_file():
        base_offset = base_offset_of(path.name, LOG_SUFFIX)
        if base_offset is not None:
            yield _source(path.parent, [SegmentFile(str(path), base_offset, path.stat().st_size)])
    elif path.is_dir():
        segments = list_segments(path)
        if segments:
            yield _source(path, segments)
            return
        for child in sorted(child for child in path.iterdir() if child.is_dir()):
            segments = list_segments(child)
            if segments:
                yield _source(child, segments)


def _source(directory: Path, segments: Iterable[SegmentFile]) -> PartitionFiles:
    try:
        key = parse_directory_name(directory.resolve().name)
    except ValueError:
        return PartitionFiles(directory, tuple(segments), None, _node_id(directory), Offset(0))
    start = _log_start(directory, key)
    return PartitionFiles(directory, tuple(segments), key, _node_id(directory), start)


def _log_start(directory: Path, key: TopicPartition) -> Offset:
    try:
        starts = read_offsets(directory.resolve().parent / LOG_START_OFFSETS)
    except (CheckpointDamaged, OSError):
        return Offset(0)  # the same assumption as that of a broker
    return starts.get(key, Offset(0))


def _node_id(directory: Path) -> NodeId | None:
    try:
        return MetaProperties.load(directory.resolve().parent).node_id
    except MetaPropertiesError:
        return None


def transactions_of(source: PartitionFiles) -> LogTransactions:
    """Finds the transactions in the batches of the whole directory, as a read_committed consumer would see them if
    everything were replicated. Raises OSError.
    """
    state, found = ProducerState(), LogTransactions(Offset(0))
    for segment in list_segments(source.directory):
        for _, batch in scan_batches(segment.path):
            aborted = state.aborted_by(batch)
            if aborted is not None:
                found.add(aborted.producer_id, aborted.first_offset, aborted.last_offset)
            state.update(batch)
            found.stable_offset = batch.next_offset
    if state.first_unstable_offset is not None:
        found.stable_offset = state.first_unstable_offset
    return found


def batches_of(
    source: PartitionFiles, transactions: LogTransactions | None
) -> Iterator[tuple[SegmentFile, int, BatchView]]:
    """Yields (segment, position, batch) from the start of the log on; with `transactions` only those that a
    read_committed consumer gets, without control batches.

    Raises:
        UserError: a segment does not end with a whole batch; raised after all earlier batches.
        OSError
    """
    for segment in source.segments:
        reached = 0
        for position, batch in scan_batches(segment.path):
            reached = position + batch.size
            if batch.last_offset < source.log_start_offset:
                continue
            if transactions is None:
                yield segment, position, batch
            elif batch.base_offset >= transactions.stable_offset:
                return
            elif not batch.is_control and not transactions.is_aborted(batch):
                yield segment, position, batch
        if reached < segment.size:
            raise UserError(
                f"{segment.path} is not printed to the end",
                f"no valid batch begins at position {reached} of {segment.size}: a torn end, preallocated space, or "
                f"damage",
                "trimaran logs dump --verify shows problems; a broker that opens the directory truncates a torn end",
            )


def batch_rows(source: PartitionFiles, transactions: LogTransactions | None) -> Iterator[Row]:
    """Yields the rows of the level `batches`. Raises as `batches_of` does."""
    topic, index = source.partition or (None, None)
    for segment, position, batch in batches_of(source, transactions):
        yield {
            "topic": topic,
            "partition": index,
            "broker_id": source.node_id,
            **batch_row(batch),
            "control_type": control_type_of(batch),
            "file": segment.path,
            "position": position,
        }


def batch_row(batch: BatchView) -> dict[str, Any]:
    """Returns the header of a batch as a row; times are in milliseconds."""
    return {
        "base_offset": batch.base_offset,
        "last_offset": batch.last_offset,
        "record_count": batch.count,
        "batch_bytes": batch.size,
        "compression": batch.compression.name.lower(),
        "base_timestamp": batch.base_timestamp,
        "max_timestamp": batch.max_timestamp,
        "timestampType": timestamp_type_id(batch),
        "leader_epoch": batch.leader_epoch,
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "base_sequence": batch.base_sequence,
        "is_transactional": batch.is_transactional,
        "is_control": batch.is_control,
        "delete_horizon_ms": batch.delete_horizon_ms,
        "crc": batch.crc,
        "crc_valid": has_valid_crc(batch),
    }


def control_type_of(batch: BatchView) -> str | None:
    """Returns the type; it is unknown for a compacted control batch without records."""
    try:
        return (
            read_control_records(batch)[0].type.name if batch.is_control and batch.count else None
        )
    except RemoteProtocolError:
        return None


def record_rows(
    source: PartitionFiles, transactions: LogTransactions | None, *, decoded: bool = False
) -> Iterator[Row]:
    """Yields the rows of the level `records`, with `control_type` and `control` for control records, and `decoded` for
    those of internal topics on request.

    Raises:
        UserError: as `batches_of`, or for records that do not match their batch.
        OSError
    """
    for segment, position, batch in batches_of(source, transactions):
        yield from rows_of_batch(source, segment, position, batch, decoded=decoded)


def rows_of_batch(
    source: PartitionFiles, segment: SegmentFile, position: int, batch: BatchView, *, decoded: bool
) -> Iterator[Row]:
    """Yields the records of one batch. Raises UserError."""
    if not batch.count:
        return
    try:
        controls = read_control_records(batch) if batch.is_control else ()
        by_offset = {control.offset: control for control in controls}
        for record, headers_count in iter_records(as_v2(batch), headers_max=HEADERS_SHOWN):
            if record.offset >= source.log_start_offset:
                row = _row_of(source, batch, record, by_offset, decoded=decoded)
                if headers_count > HEADERS_SHOWN:
                    row["headers_left_out"] = headers_count - HEADERS_SHOWN
                yield row
    except (RemoteProtocolError, KafkaError) as error:
        raise UserError(
            f"{segment.path} is damaged at position {position}",
            str(error),
            "another replica may have this batch; trimaran logs dump --verify lists all that is wrong",
        ) from None


def _row_of(
    source: PartitionFiles,
    batch: BatchView,
    record: Record,
    by_offset: Mapping[Offset, ControlRecord],
    *,
    decoded: bool,
) -> Row:
    row = _record_row(source, batch, record)
    if control := by_offset.get(record.offset):
        row |= _control_columns(control)
    elif decoded and row["topic"] is not None:
        row["decoded"] = decode_record(row["topic"], record)
    if row["value"] is not None and _may_hold_secret(record, in_doubt=row["topic"] == TOPIC):
        row["value"] = HIDDEN
    return row


def _may_hold_secret(record: Record, *, in_doubt: bool) -> bool:
    """Returns whether a record of the metadata log may have a secret; such a record may also be in a directory with
    another name, as a copy.

    `in_doubt` is the result for a record that cannot be decoded: whether the directory has the name of the metadata
    log.
    """
    value = record.value or b""
    if not in_doubt and value[:1] != _METADATA_FRAME:
        return False
    try:
        found = read_metadata_record(value, record.offset)
    except RemoteProtocolError:
        return in_doubt
    return in_doubt if isinstance(found, UnknownRecord) else holds_secret(found)


def _control_columns(control: ControlRecord) -> Row:
    """Returns the columns of a control record: a type and its content, instead of an application's key and value."""
    return {
        "key": None,
        "value": None,
        "control_type": control.type.name,
        "control": None if control.value is None else as_json(control.value),
    }


def _record_row(source: PartitionFiles, batch: BatchView, record: Record) -> Row:
    topic, index = source.partition or (None, None)
    return {
        "key": None if record.key is None else base64_text(record.key),
        "value": None if record.value is None else base64_text(record.value),
        "topic": topic,
        "partition": index,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "timestampType": timestamp_type_id(batch),
        "headers": [
            {
                "key": header.key,
                "value": None if header.value is None else base64_text(header.value),
            }
            for header in record.headers
        ],
    }


def decode_record(topic: str, record: Record) -> Row | None:
    """Returns the messages in a record of an internal topic, None for others; `error` if they are malformed."""
    try:
        if topic == TOPIC:
            name, payload = typed(record)
            return {"type": name, "value": payload}
        if topic not in COORDINATOR_RECORDS:
            return None
        found = decode_coordinator_record(topic, record.key or b"", record.value)
    except RemoteProtocolError as error:
        return {"error": str(error)}
    return {
        "type": type(found.key).__name__.removesuffix("Key"),
        "key": as_json(found.key, 0),
        "value": None if found.value is None else as_json(found.value, found.value_version),
    }
