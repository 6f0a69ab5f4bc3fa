"""`partition_history`: what every partition's leader and ISR were, from when to when, and how good that was.

A fold over the metadata log. One row for each time between two changes of a partition; the last row of a living
partition has no end, and its seconds count to the last committed record. States, worst first: `offline` (no leader),
`under_min_isr`, `under_replicated` (replicas being added do not count), `ok`; a row `deleted` of no length ends a
removed partition.

Source: KIP-631, KIP-966, Kafka's `PartitionRegistration`. `min_isr` is as the metadata log says (topic, then cluster
default); a broker's own static default is not in the log: 1 is taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa

from spark.kafka_log.read import TIMESTAMP, Wanted
from spark.kafka_metadata.plan import MetadataTask
from spark.kafka_metadata.records import each_record
from wire.declarations import Struct
from wire.primitives import uuid_to_text
from wire.records.configs import ConfigRecord
from wire.records.topics import (
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)

NO_CHANGE, NO_LEADER = -2, -1
RECOVERING = 1  # leader_recovery_state after an unclean election
TOPIC, BROKER = 2, 4  # resource types
MIN_ISR = "min.insync.replicas"
MIN_ISR_DEFAULT = 1
CHUNK_ROWS = 10_000

_INTS = pa.list_(pa.int32())
SCHEMA = pa.schema(
    [
        ("topic_id", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("from_offset", pa.int64()),
        ("to_offset", pa.int64()),
        ("from_ts", TIMESTAMP),
        ("to_ts", TIMESTAMP),
        ("seconds", pa.float64()),
        ("leader", pa.int32()),
        ("prev_leader", pa.int32()),
        ("leader_epoch", pa.int32()),
        ("partition_epoch", pa.int32()),
        ("replicas", _INTS),
        ("isr", _INTS),
        ("isr_added", _INTS),
        ("isr_removed", _INTS),
        ("adding", _INTS),
        ("removing", _INTS),
        ("elr", _INTS),
        ("min_isr", pa.int32()),
        ("state", pa.string()),
        ("cause", pa.string()),
        ("unclean", pa.bool_()),
        ("controller_epoch", pa.int32()),
    ]
)


class Moment(NamedTuple):
    """When a record was written: offset, time, epoch of the controller."""

    offset: int
    timestamp_ms: int
    epoch: int


class State(NamedTuple):
    """A partition between two changes."""

    since: Moment
    leader: int
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    elr: tuple[int, ...]
    unclean: bool
    min_isr: int
    cause: str
    before: State | None  # one step back only

    @property
    def name(self) -> str:
        if self.cause == "delete":
            return "deleted"
        if self.leader == NO_LEADER:
            return "offline"
        if len(self.isr) < self.min_isr:
            return "under_min_isr"
        wanted = len(set(self.replicas) - set(self.adding))
        return "under_replicated" if len(self.isr) < wanted else "ok"


Key = tuple[bytes, int]
Row = dict[str, Any]


class PartitionHistory:
    """Replays metadata records; finished intervals are taken with `take`."""

    def __init__(self) -> None:
        self._names: dict[bytes, str] = {}
        self._ids: dict[str, bytes] = {}
        self._partitions: dict[bytes, dict[int, State]] = {}
        self._min_isr: dict[str, int] = {}
        self._min_isr_default = MIN_ISR_DEFAULT
        self._rows: list[Row] = []

    def replay(self, record: Struct, moment: Moment, *, from_snapshot: bool = False) -> None:
        match record:
            case TopicRecord():
                self._names[record.topic_id] = record.name
                self._ids[record.name] = record.topic_id
                self._partitions[record.topic_id] = {}
            case PartitionRecord():
                self._created(record, moment, "snapshot" if from_snapshot else "create")
            case PartitionChangeRecord():
                self._changed(record, moment)
            case RemoveTopicRecord():
                self._removed(record.topic_id, moment)
            case ConfigRecord() if record.name == MIN_ISR:
                self._configured(record, moment)

    @property
    def finished(self) -> int:
        """How many rows `take` would give."""
        return len(self._rows)

    def take(self) -> list[Row]:
        """The rows finished so far; each is given once."""
        rows, self._rows = self._rows, []
        return rows

    def finish(self, last: Moment) -> list[Row]:
        """The intervals that are still open, measured up to the last record."""
        for topic_id, partitions in self._partitions.items():
            for number, state in partitions.items():
                self._close((topic_id, number), state, None, last)
        return self.take()

    def _created(self, record: PartitionRecord, moment: Moment, cause: str) -> None:
        state = State(
            since=moment,
            leader=record.leader,
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
            replicas=tuple(record.replicas),
            isr=tuple(record.isr),
            adding=tuple(record.adding_replicas),
            removing=tuple(record.removing_replicas),
            elr=tuple(record.eligible_leader_replicas or ()),
            unclean=record.leader_recovery_state == RECOVERING,
            min_isr=self._min_isr_of(record.topic_id),
            cause=cause,
            before=None,
        )
        self._partitions.setdefault(record.topic_id, {})[record.partition_id] = state

    def _changed(self, record: PartitionChangeRecord, moment: Moment) -> None:
        old = self._partitions.get(record.topic_id, {}).get(record.partition_id)
        if old is None:
            return  # its creation is not in what was read
        is_election = record.leader != NO_CHANGE
        new = old._replace(
            since=moment,
            leader=record.leader if is_election else old.leader,
            leader_epoch=old.leader_epoch + is_election,
            partition_epoch=old.partition_epoch + 1,
            replicas=_new(record.replicas, old.replicas),
            isr=_new(record.isr, old.isr),
            adding=_new(record.adding_replicas, old.adding),
            removing=_new(record.removing_replicas, old.removing),
            elr=_new(record.eligible_leader_replicas, old.elr),
            unclean=(
                old.unclean
                if record.leader_recovery_state < 0
                else record.leader_recovery_state == RECOVERING
            ),
            before=old._replace(before=None),
        )
        self._turn(
            (record.topic_id, record.partition_id), old, new._replace(cause=_cause(old, new))
        )

    def _removed(self, topic_id: bytes, moment: Moment) -> None:
        for number, old in self._partitions.pop(topic_id, {}).items():
            end = old._replace(since=moment, cause="delete", before=old._replace(before=None))
            self._close((topic_id, number), old, moment, moment)
            self._close((topic_id, number), end, moment, moment)
        name = self._names.get(topic_id)
        if name is not None and self._ids.get(name) == topic_id:
            del self._ids[name]
            self._min_isr.pop(name, None)

    def _configured(self, record: ConfigRecord, moment: Moment) -> None:
        value = int(record.value) if record.value and record.value.isdecimal() else None
        if record.resource_type == BROKER and record.resource_name == "":
            self._min_isr_default = MIN_ISR_DEFAULT if value is None else value
            touched = list(self._partitions)
        elif record.resource_type == TOPIC:
            if value is None:
                self._min_isr.pop(record.resource_name, None)
            else:
                self._min_isr[record.resource_name] = value
            touched = [self._ids[record.resource_name]] if record.resource_name in self._ids else []
        else:
            return
        for topic_id in touched:
            self._reconfigure(topic_id, moment)

    def _reconfigure(self, topic_id: bytes, moment: Moment) -> None:
        """A new minimum ends an interval, unless it came with the partition's creation."""
        minimum = self._min_isr_of(topic_id)
        partitions = self._partitions.get(topic_id, {})
        for number, old in partitions.items():
            if old.min_isr == minimum:
                continue
            if old.since.timestamp_ms == moment.timestamp_ms:
                partitions[number] = old._replace(min_isr=minimum)
                continue
            new = old._replace(
                since=moment, min_isr=minimum, cause="config", before=old._replace(before=None)
            )
            self._turn((topic_id, number), old, new)

    def _min_isr_of(self, topic_id: bytes) -> int:
        return self._min_isr.get(self._names.get(topic_id, ""), self._min_isr_default)

    def _turn(self, key: Key, old: State, new: State) -> None:
        self._close(key, old, new.since, new.since)
        self._partitions[key[0]][key[1]] = new

    def _close(self, key: Key, state: State, end: Moment | None, measured_to: Moment) -> None:
        before = state.before or state
        start_ms = state.since.timestamp_ms
        is_first = state.before is None
        self._rows.append(
            {
                "topic_id": uuid_to_text(key[0]),
                "topic": self._names.get(key[0]),
                "partition": key[1],
                "from_offset": state.since.offset,
                "to_offset": None if end is None else end.offset,
                "from_ts": start_ms * 1000,
                "to_ts": None if end is None else end.timestamp_ms * 1000,
                "seconds": max(0, measured_to.timestamp_ms - start_ms) / 1000,
                "leader": None if state.leader == NO_LEADER else state.leader,
                "prev_leader": None if is_first or before.leader == NO_LEADER else before.leader,
                "leader_epoch": state.leader_epoch,
                "partition_epoch": state.partition_epoch,
                "replicas": state.replicas,
                "isr": state.isr,
                "isr_added": sorted(set(state.isr) - set(before.isr)),
                "isr_removed": sorted(set(before.isr) - set(state.isr)),
                "adding": state.adding,
                "removing": state.removing,
                "elr": state.elr,
                "min_isr": state.min_isr,
                "state": state.name,
                "cause": state.cause,
                "unclean": state.unclean,
                "controller_epoch": state.since.epoch,
            }
        )


def _new(given: list[int] | None, old: tuple[int, ...]) -> tuple[int, ...]:
    return old if given is None else tuple(given)


def _cause(old: State, new: State) -> str:
    if new.leader != old.leader:
        return "leader_change"
    if (new.replicas, new.adding, new.removing) != (old.replicas, old.adding, old.removing):
        return "reassign"
    if set(old.isr) - set(new.isr):
        return "isr_shrink"
    if set(new.isr) - set(old.isr):
        return "isr_expand"
    return "leader_change" if new.leader_epoch != old.leader_epoch else "other"


def read_partition_history(
    task: MetadataTask, columns: tuple[str, ...]
) -> Iterator[pa.RecordBatch]:
    """Rows of the table, from one whole metadata log. Raises DataUnreadable."""
    history = PartitionHistory()
    last = Moment(-1, 0, -1)
    for found in each_record(task, Wanted((), include_control=True)):
        last = Moment(found.offset, found.record.timestamp_ms, found.batch.leader_epoch)
        if found.message is not None and not found.batch.is_control:
            history.replay(found.message, last, from_snapshot=found.source == "snapshot")
            if history.finished >= CHUNK_ROWS:
                yield _as_arrow(history.take(), columns)
    yield _as_arrow(history.finish(last), columns)


def _as_arrow(rows: list[Row], columns: tuple[str, ...]) -> pa.RecordBatch:
    schema = pa.schema([SCHEMA.field(name) for name in columns])
    return pa.RecordBatch.from_pylist(
        [{name: row[name] for name in columns} for row in rows], schema
    )
