"""The committed records of a metadata log in order, as every replica replays them: snapshot first, then the log.

Only records of the types asked for are decoded; the others cost a look at a byte. A transaction of records (KIP-868) is
told when it has ended, and not at all when it was aborted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from log.batches.batch import BatchView
from log.batches.columns import decode_columns
from log.batches.records import RECORDS_BYTES_MAX, decode_records
from spark.kafka_metadata.plan import MetadataTask, Snapshot
from spark.kafka_metadata.reading import batches_in, name_of
from spark.origins.origin import DataUnreadable
from wire.errors import KafkaError, RemoteProtocolError
from wire.messages.control import ControlType, decode_control_key, decode_control_value
from wire.records.metadata import decode_metadata_record
from wire.records.transactions import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)
from wire.schema import Message

CHUNK_BATCHES = 2_000  # decoded in one call; metadata batches are small
CHUNK_BYTES = 4 << 20

_TRANSACTIONS: frozenset[type[Message]] = frozenset(
    (BeginTransactionRecord, EndTransactionRecord, AbortTransactionRecord)
)
_TRANSACTION_KEYS = frozenset(record.KEY for record in _TRANSACTIONS)


class Moment(NamedTuple):
    """When a record was written: offset, time, epoch of the controller."""

    offset: int
    timestamp_ms: int
    epoch: int


NEVER = Moment(-1, -1, -1)


class Step(NamedTuple):
    """A record that became visible. `group` is the same for records that did so at once: those of a batch."""

    moment: Moment
    message: Any  # of any record type
    group: int
    from_snapshot: bool


class Walk:
    """One pass over a task; `last` is the moment of the last record passed, of whatever type.

    Args:
        keys: types (`KEY`) of the records wanted.
        control: whether control records are wanted too; they come with their types as classes.
        until_ms: records written later, and what follows the first of them, are left out; None: none are.
    """

    def __init__(
        self,
        task: MetadataTask,
        keys: frozenset[int],
        *,
        control: bool = False,
        until_ms: int | None = None,
    ) -> None:
        self._task = task
        self._keys = keys | _TRANSACTION_KEYS
        self._control = control
        self._until_ms = until_ms
        self._open: list[Step] | None = None
        self.last = NEVER

    def __iter__(self) -> Iterator[Step]:
        """Raises DataUnreadable: damaged data."""
        if self._task.snapshot is not None:
            yield from self._snapshot(self._task.snapshot)
        for piece in self._task.ranges:
            batches = (batch for _, batch in batches_in(piece))
            inside = range(piece.start_offset, piece.end_offset)
            for step in _explained(name_of(piece), self._log(batches, inside)):
                if self._until_ms is not None and step.moment.timestamp_ms > self._until_ms:
                    return
                if type(step.message) in _TRANSACTIONS:
                    yield from self._ended(step)
                elif self._open is None:
                    yield step
                else:
                    self._open.append(step)

    def _ended(self, step: Step) -> list[Step]:
        """What becomes visible as a transaction of records begins or ends."""
        done, self._open = self._open or [], None
        if isinstance(step.message, EndTransactionRecord):
            return [one._replace(group=step.group) for one in done]
        if isinstance(step.message, BeginTransactionRecord):
            self._open = []
        return []

    def _snapshot(self, snapshot: Snapshot) -> Iterator[Step]:
        """All of a snapshot is of the moment that it was taken at."""
        moment = snapshot_moment(snapshot)
        refuse_later(snapshot, moment, self._until_ms)
        self.last = moment
        batches = (batch for _, batch in snapshot_batches(snapshot))
        everything = range(1 << 63)
        for step in _explained(snapshot.path, self._log(batches, everything)):
            yield step._replace(moment=moment, group=-1, from_snapshot=True)
        self.last = moment

    def _log(self, batches: Iterator[BatchView], inside: range) -> Iterator[Step]:
        chunk: list[BatchView] = []
        size = 0
        for batch in batches:
            if batch.is_control:
                yield from self._decoded(chunk, inside)
                chunk, size = [], 0
                yield from self._controls(batch, inside)
                continue
            chunk.append(batch)
            size += batch.size
            if len(chunk) >= CHUNK_BATCHES or size >= CHUNK_BYTES:
                yield from self._decoded(chunk, inside)
                chunk, size = [], 0
        yield from self._decoded(chunk, inside)

    def _controls(self, batch: BatchView, inside: range) -> Iterator[Step]:
        for record in decode_records(batch):
            if record.offset not in inside:
                continue
            self.last = Moment(record.offset, record.timestamp_ms, batch.leader_epoch)
            kind = decode_control_key(record.key or b"")
            if self._control and kind is not ControlType.UNKNOWN:
                message = decode_control_value(kind, record.value or b"")
                yield Step(self.last, message, batch.base_offset, False)

    def _decoded(self, batches: list[BatchView], inside: range) -> Iterator[Step]:
        if not batches:
            return
        columns = decode_columns(batches, RECORDS_BYTES_MAX)
        data = bytes(columns.data)
        keys, until = self._keys, self._until_ms
        passed: tuple[int, int, int] | None = None  # the last: index of its batch, offset, time
        rows = zip(
            columns.batch,
            columns.offset,
            columns.timestamp_ms,
            columns.value_start,
            columns.value_size,
            strict=True,
        )
        for index, offset, timestamp_ms, start, size in rows:
            if offset not in inside:
                continue
            if until is not None and timestamp_ms > until:
                self._pass(batches, passed)
                yield Step(Moment(offset, timestamp_ms, -1), None, -1, False)  # ends the walk
                return
            passed = index, offset, timestamp_ms
            if size > 2 and (data[start + 1] in keys or data[start + 1] > 0x7F):
                message = _message(data[start : start + size])
                if message is not None and message.KEY in keys:
                    batch = batches[index]
                    moment = Moment(offset, timestamp_ms, batch.leader_epoch)
                    yield Step(moment, message, batch.base_offset, False)
        self._pass(batches, passed)

    def _pass(self, batches: list[BatchView], passed: tuple[int, int, int] | None) -> None:
        if passed is not None:
            index, offset, timestamp_ms = passed
            self.last = Moment(offset, timestamp_ms, batches[index].leader_epoch)


def _message(value: bytes) -> Any:
    """None for a record of a later Kafka: it is no end of an analysis."""
    try:
        return decode_metadata_record(value)
    except RemoteProtocolError:
        return None


def _explained(path: str, steps: Iterator[Step]) -> Iterator[Step]:
    try:
        yield from steps
    except (RemoteProtocolError, KafkaError) as error:
        raise DataUnreadable(f"{path}: {error}") from None


def snapshot_batches(snapshot: Snapshot) -> Iterator[tuple[int, BatchView]]:
    """(position, batch) of a whole snapshot. Raises DataUnreadable where it is damaged."""
    end = 0
    for position, batch in snapshot.batches():
        end = position + batch.size
        yield position, batch
    if end != snapshot.size:
        raise DataUnreadable(f"{snapshot.path}: damaged at position {end}")


def refuse_later(snapshot: Snapshot, moment: Moment, until_ms: int | None) -> None:
    """Raises DataUnreadable where a log that begins at the snapshot does not reach back so far."""
    if until_ms is not None and moment.timestamp_ms > until_ms:
        raise DataUnreadable(
            f"asOfTimestamp {until_ms}: the log begins at {snapshot.path}, of time {moment.timestamp_ms}"
        )


def snapshot_moment(snapshot: Snapshot) -> Moment:
    """When the last record in it was written, as its header says; else when the snapshot's first batch was."""
    for _, batch in snapshot_batches(snapshot):
        timestamp_ms = batch.base_timestamp
        if batch.is_control:
            for record in decode_records(batch):
                if decode_control_key(record.key or b"") is ControlType.SNAPSHOT_HEADER:
                    header = decode_control_value(ControlType.SNAPSHOT_HEADER, record.value or b"")
                    timestamp_ms = getattr(header, "last_contained_log_timestamp", timestamp_ms)
        return Moment(snapshot.end_offset - 1, timestamp_ms, snapshot.epoch)
    return Moment(snapshot.end_offset - 1, -1, snapshot.epoch)
