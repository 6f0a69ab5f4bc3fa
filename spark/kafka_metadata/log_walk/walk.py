"""The committed records of a metadata log in order, as every replica replays them: snapshot first, then the log.

Only records of the wanted types are decoded; each other record costs reading one byte. A record of a later Kafka is
yielded as an `UnknownRecord`, whatever its type, since its effect is unknown. A transaction of records (KIP-868)
becomes visible when it has ended, and never if it was aborted.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import repeat
from typing import Any, NamedTuple

from trimaran.log.batches.batch import BatchView
from trimaran.log.batches.columns import Columns, decode_columns
from trimaran.log.batches.records import RECORDS_BYTES_MAX, decode_records
from trimaran.spark.kafka_metadata.log_walk.decoding import decode_messages
from trimaran.spark.kafka_metadata.plan import MetadataTask, Snapshot
from trimaran.spark.origins.origin import DataUnreadable, Range, Reading
from trimaran.wire.errors import KafkaError, RemoteProtocolError
from trimaran.wire.identity import NO_LEADER_EPOCH, NO_OFFSET, NO_TIMESTAMP, LeaderEpoch, Offset
from trimaran.wire.messages.control import ControlType, decode_control_key, decode_control_value
from trimaran.wire.records.metadata import UnknownRecord
from trimaran.wire.records.transactions import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)
from trimaran.wire.schema import Message

CHUNK_BATCHES = 500  # the number decoded in one call; metadata batches are small
CHUNK_BYTES = 1 << 20

_TRANSACTIONS: frozenset[type[Message]] = frozenset(
    (BeginTransactionRecord, EndTransactionRecord, AbortTransactionRecord)
)
_TRANSACTION_KEYS = frozenset(record.KEY for record in _TRANSACTIONS)


class Moment(NamedTuple):
    """The position of a record: offset, time, and epoch of the controller."""

    offset: Offset
    timestamp_ms: int
    epoch: LeaderEpoch


class Ongoing(NamedTuple):
    """A placeholder for the end of an interval that has not ended."""

    offset: None = None
    timestamp_ms: None = None


ONGOING = Ongoing()
NEVER = Moment(NO_OFFSET, NO_TIMESTAMP, NO_LEADER_EPOCH)


def seconds_between(since: Moment, until: Moment) -> float | None:
    """Returns the seconds between two moments: 0 if the clock went back; None if one of the records has no time
    (-1).
    """
    begin, end = since.timestamp_ms, until.timestamp_ms
    if begin < 0 or end < 0:
        return None
    return (end - begin) / 1000 if end > begin else 0.0


class WalkStep(NamedTuple):
    """A record that became visible. `group` is the same for records that became visible together, such as those of a
    batch.
    """

    moment: Moment
    message: Any  # a record of any type, or its bytes, or an UnknownRecord
    group: int
    from_snapshot: bool


# Builds the tuples without the checks of their classes, since there is one of each for every record.
_moment: Callable[[tuple[int, int, int]], Moment] = partial(tuple.__new__, Moment)
_step: Callable[[tuple[Moment, Any, int, bool]], WalkStep] = partial(tuple.__new__, WalkStep)


class Walk:
    """One pass over a task; `last` is the moment of the last record, of any type.

    Args:
        keys: the wanted types (`KEY`) of records.
        raw: the types of records that are yielded as the bytes of their values (see `decode_messages`).
        control: whether control records are wanted, too; they are yielded with their types as classes.
        until_ms: the first record that was written later and all following records are omitted; None omits none.
    """

    def __init__(
        self,
        task: MetadataTask,
        keys: frozenset[int],
        *,
        raw: frozenset[int] = frozenset(),
        control: bool = False,
        until_ms: int | None = None,
    ) -> None:
        self._task = task
        self._raw = raw
        self._keys = keys | _TRANSACTION_KEYS
        self._control = control
        self._until_ms = until_ms
        self._open: list[WalkStep] | None = None
        self._is_over = False  # a later record was found
        self.last = NEVER

    def __iter__(self) -> Iterator[WalkStep]:
        """Yields the steps. Raises DataUnreadable for damaged data."""
        if self._task.snapshot is not None:
            yield from self._snapshot(self._task.snapshot)
        for piece in self._task.ranges:
            batches = (batch for _, batch in batches_in(piece))
            inside = range(piece.start_offset, piece.end_offset)
            for steps in _explained(piece.name, self._log(batches, inside)):
                yield from self._visible(steps)
                if self._is_over:
                    return

    def _visible(self, steps: list[WalkStep]) -> Iterable[WalkStep]:
        """Returns the steps that are now visible, including earlier steps that waited."""
        if self._open is None and _TRANSACTIONS.isdisjoint([type(s.message) for s in steps]):
            return steps
        visible: list[WalkStep] = []
        for step in steps:
            if type(step.message) in _TRANSACTIONS:
                visible += self._ended(step)
            elif self._open is None:
                visible.append(step)
            else:
                self._open.append(step)
        return visible

    def _ended(self, step: WalkStep) -> list[WalkStep]:
        """Returns the steps that become visible as a transaction of records begins or ends."""
        done, self._open = self._open or [], None
        if isinstance(step.message, EndTransactionRecord):
            return [step_done._replace(group=step.group) for step_done in done]
        if isinstance(step.message, BeginTransactionRecord):
            self._open = []
        return []

    def _snapshot(self, snapshot: Snapshot) -> Iterator[WalkStep]:
        """Yields the records of a snapshot; their moment is that of the snapshot."""
        moment = snapshot_moment(snapshot)
        refuse_later(snapshot, moment, self._until_ms)
        self.last = moment
        batches = (batch for _, batch in snapshot_batches(snapshot))
        everything = range(1 << 63)
        for steps in _explained(snapshot.path, self._log(batches, everything)):
            for step in steps:
                yield step._replace(moment=moment, group=-1, from_snapshot=True)
        self.last = moment

    def _log(self, batches: Iterator[BatchView], inside: range) -> Iterator[list[WalkStep]]:
        for some in _grouped(batches):
            yield (
                self._controls(some[0], inside)
                if some[0].is_control
                else self._decoded(some, inside)
            )
            if self._is_over:
                return

    def _controls(self, batch: BatchView, inside: range) -> list[WalkStep]:
        steps = []
        for record in decode_records(batch):
            if record.offset not in inside:
                continue
            if self._is_later(record.timestamp_ms):
                break
            self.last = Moment(record.offset, record.timestamp_ms, batch.leader_epoch)
            kind = decode_control_key(record.key or b"")
            if self._control:
                message = (
                    _unknown_control(record.key or b"")
                    if kind is ControlType.UNKNOWN
                    else decode_control_value(kind, record.value or b"")
                )
                steps.append(WalkStep(self.last, message, batch.base_offset, False))
        return steps

    def _is_later(self, timestamp_ms: int) -> bool:
        if self._until_ms is not None and timestamp_ms > self._until_ms:
            self._is_over = True
        return self._is_over

    def _decoded(self, batches: list[BatchView], inside: range) -> list[WalkStep]:
        columns = decode_columns(batches, RECORDS_BYTES_MAX)
        first, end = self._rows(columns, inside)
        if first == end:
            return []
        data = bytes(columns.data)
        index, starts = columns.batch[first:end], columns.value_start[first:end]
        offsets, times = columns.offset[first:end], columns.timestamp_ms[first:end]
        sizes = columns.value_size[first:end]
        messages = decode_messages(data, starts, sizes, self._keys, self._raw, tells_unknown=True)
        epochs = [batch.leader_epoch for batch in batches]
        groups = [batch.base_offset for batch in batches]
        moments = map(_moment, zip(offsets, times, map(epochs.__getitem__, index), strict=True))
        steps = zip(moments, messages, map(groups.__getitem__, index), repeat(False), strict=False)
        self.last = Moment(Offset(offsets[-1]), times[-1], LeaderEpoch(epochs[index[-1]]))
        return [_step(cells) for cells in steps if cells[1] is not None]

    def _rows(self, columns: Columns, inside: range) -> tuple[int, int]:
        """Returns [first, end) of the wanted rows; offsets ascend."""
        first = bisect_left(columns.offset, inside.start)
        end = bisect_left(columns.offset, inside.stop)
        if self._until_ms is not None:
            for row in range(first, end):
                if self._is_later(columns.timestamp_ms[row]):
                    return first, row
        return first, end


def _unknown_control(key: bytes) -> UnknownRecord:
    """Returns a control record of a later Kafka: its key has a version and a type."""
    return UnknownRecord(int.from_bytes(key[2:4], "big"), int.from_bytes(key[:2], "big"))


def _grouped(batches: Iterable[BatchView]) -> Iterator[list[BatchView]]:
    """Yields groups of batches that are decoded in one call; a control batch is alone."""
    some: list[BatchView] = []
    size = 0
    for batch in batches:
        is_full = len(some) >= CHUNK_BATCHES or size >= CHUNK_BYTES
        if some and (is_full or batch.is_control or some[0].is_control):
            yield some
            some, size = [], 0
        some.append(batch)
        size += batch.size
    if some:
        yield some


def _explained(path: str, steps: Iterator[list[WalkStep]]) -> Iterator[list[WalkStep]]:
    try:
        yield from steps
    except (RemoteProtocolError, KafkaError) as error:
        raise DataUnreadable(f"{path}: {error}") from None


def snapshot_batches(snapshot: Snapshot) -> Iterator[tuple[int, BatchView]]:
    """Yields (position, batch) of a whole snapshot. Raises DataUnreadable if it is damaged."""
    end = 0
    for position, batch in snapshot.batches():
        end = position + batch.size
        yield position, batch
    if end != snapshot.size:
        raise DataUnreadable(f"{snapshot.path}: damaged at position {end}")


def refuse_later(snapshot: Snapshot, moment: Moment, until_ms: int | None) -> None:
    """Raises DataUnreadable if the log begins after the offset, at a later snapshot."""
    if until_ms is not None and moment.timestamp_ms > until_ms:
        raise DataUnreadable(
            f"asOfTimestamp {until_ms}: the log begins at {snapshot.path}, of time {moment.timestamp_ms}"
        )


def snapshot_moment(snapshot: Snapshot) -> Moment:
    """Returns the moment of the last record in a snapshot according to its header, else that of its first batch."""
    for _, batch in snapshot_batches(snapshot):
        timestamp_ms = batch.base_timestamp
        if batch.is_control:
            for record in decode_records(batch):
                if decode_control_key(record.key or b"") is ControlType.SNAPSHOT_HEADER:
                    header = decode_control_value(ControlType.SNAPSHOT_HEADER, record.value or b"")
                    timestamp_ms = getattr(header, "last_contained_log_timestamp", timestamp_ms)
        return Moment(snapshot.end_offset - 1, timestamp_ms, snapshot.epoch)
    return Moment(snapshot.end_offset - 1, NO_TIMESTAMP, snapshot.epoch)


def batches_in(
    piece: Range, *, include_control: bool = True, verify_crc: bool = True
) -> Iterator[tuple[int, BatchView]]:
    """Yields (position, batch) of the batches that contain any of the range's offsets. Raises DataUnreadable."""
    reading = Reading(include_control=include_control, verify_crc=verify_crc)
    return ((found.position, found.batch) for found in piece.batches(reading))
