"""`partition_history`: what every partition's leader and ISR were, from when to when, and how good that was.

One row for each time between two changes of a partition; the last row of a living partition has no end, and its seconds
count to the last committed record. States, worst first: `offline` (no leader), `under_min_isr`, `under_replicated`
(replicas being added do not count), `ok`; a row `deleted` of no length ends a removed partition.

Source: KIP-631, KIP-966. `min_isr` is as the metadata log says (topic, then cluster default); a broker's own static
default is not in the log: 1 is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from quorum.metadata.image import NO_LEADER, TOPIC_RESOURCE, PartitionImage
from spark.column import BOOL, INT, INTS, LONG, STRING, TIMESTAMP, Column
from spark.kafka_metadata.tables.fold import Fold, Row, Span, folded
from spark.kafka_metadata.tables.partitions import (
    RECOVERING,
    TOPIC_RECORDS,
    Topics,
    cause_of,
    known,
    without,
)
from spark.kafka_metadata.tables.walk import Moment, Step
from wire.records.configs import ConfigRecord
from wire.records.topics import PartitionChangeRecord, PartitionRecord, RemoveTopicRecord
from wire.schema import Message

MIN_ISR = "min.insync.replicas"
MIN_ISR_DEFAULT = 1
EVERYWHERE = (4, "")  # the resource of what holds for all brokers

COLUMNS = (
    Column(
        "topic_id",
        STRING,
        "the topic's id",
        "TopicRecord.topicId",
        cells=lambda parts: parts.topic_id,
    ),
    Column(
        "topic",
        STRING,
        "its name",
        "TopicRecord.name",
        cells=lambda parts: parts.topic,
    ),
    Column(
        "partition",
        INT,
        "the partition",
        "PartitionRecord.partitionId",
        cells=lambda parts: parts.partition,
    ),
    Column(
        "from_offset",
        LONG,
        "the record that began it",
        cells=lambda parts: parts.from_offset,
    ),
    Column(
        "to_offset",
        LONG,
        "the record that ended it; null: it goes on",
        cells=lambda parts: parts.to_offset,
    ),
    Column(
        "from_ts",
        TIMESTAMP,
        "when it began",
        unit="UTC",
        cells=lambda parts: parts.from_ms,
    ),
    Column(
        "to_ts",
        TIMESTAMP,
        "when it ended; null: it goes on",
        unit="UTC",
        cells=lambda parts: parts.to_ms,
    ),
    Column(
        "seconds",
        pa.float64(),
        "its length, of the last interval to the log's end; null: no time",
        unit="s",
        cells=lambda parts: parts.seconds,
    ),
    Column(
        "leader",
        INT,
        "the leader; null: none",
        "PartitionChangeRecord.leader",
        cells=lambda parts: parts.leaders,
    ),
    Column(
        "prev_leader",
        INT,
        "the leader before; null: none, or the first interval",
        cells=lambda parts: parts.prev_leaders,
    ),
    Column(
        "leader_epoch",
        INT,
        "grows with each election",
        "PartitionRecord.leaderEpoch",
        cells=lambda parts: parts.now.leader_epoch,
    ),
    Column(
        "partition_epoch",
        INT,
        "grows with each change",
        "PartitionRecord.partitionEpoch",
        cells=lambda parts: parts.now.partition_epoch,
    ),
    Column(
        "replicas",
        INTS,
        "brokers, the preferred leader first",
        "PartitionRecord.replicas",
        cells=lambda parts: parts.now.replicas,
    ),
    Column(
        "isr",
        INTS,
        "in-sync replicas",
        "PartitionChangeRecord.isr",
        cells=lambda parts: parts.now.isr,
    ),
    Column(
        "isr_added",
        INTS,
        "in the ISR, and not in that before",
        cells=lambda parts: parts.isr_added,
    ),
    Column(
        "isr_removed",
        INTS,
        "in the ISR before, and no longer",
        cells=lambda parts: parts.isr_removed,
    ),
    Column(
        "adding",
        INTS,
        "replicas being added",
        "PartitionRecord.addingReplicas",
        cells=lambda parts: parts.now.adding,
    ),
    Column(
        "removing",
        INTS,
        "replicas being removed",
        "PartitionRecord.removingReplicas",
        cells=lambda parts: parts.now.removing,
    ),
    Column(
        "elr",
        INTS,
        "eligible leaders outside the ISR (KIP-966)",
        "….eligibleLeaderReplicas",
        cells=lambda parts: parts.now.elr,
    ),
    Column(
        "min_isr",
        INT,
        "min.insync.replicas as the log says",
        "ConfigRecord",
        cells=lambda parts: parts.min_isr,
    ),
    Column(
        "state",
        STRING,
        "ok, under_replicated, under_min_isr, offline, deleted",
        cells=lambda parts: parts.states,
    ),
    Column(
        "cause",
        STRING,
        "create, snapshot, leader_change, isr_shrink, isr_expand, reassign, config, delete, other",
        cells=lambda parts: parts.causes,
    ),
    Column(
        "unclean",
        BOOL,
        "the leader was not in sync when elected and has not recovered yet",
        "….leaderRecoveryState",
        cells=lambda parts: parts.unclean,
    ),
    Column(
        "controller_epoch",
        INT,
        "epoch of the controller that wrote the record",
        cells=lambda parts: parts.controller_epoch,
    ),
)


class Interval(NamedTuple):
    """A partition between two changes; `before` is None in the first, `cause` empty for what both images tell."""

    since: Moment
    now: PartitionImage
    min_isr: int
    cause: str
    before: PartitionImage | None


# As the class does, without a look at names: there is one for every change of a partition.
_interval: Callable[[tuple[object, ...]], Interval] = partial(tuple.__new__, Interval)


class Parts:
    """Some rows taken apart, a sequence for each part of them: tuples in tuples cost more to look into one by one."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.topic_id, self.topic, self.partition, intervals, self._ends, ended = zip(
            *rows, strict=True
        )
        since, self._nows, self.min_isr, self._causes, self._befores = zip(*intervals, strict=True)
        self.from_offset, self.from_ms, self.controller_epoch = zip(*since, strict=True)
        self._ended_ms = ended
        # Of each field its values.
        fields: list[Any] = list(zip(*self._nows, strict=True))
        self.now: Any = PartitionImage(*fields)

    @property
    def to_offset(self) -> list[int | None]:
        return [None if end is None else end.offset for end in self._ends]

    @property
    def to_ms(self) -> list[int | None]:
        return [None if end is None else end.timestamp_ms for end in self._ends]

    @property
    def seconds(self) -> npt.NDArray[np.float64] | list[float | None]:
        """As `seconds_between` has them."""
        lasted = np.subtract(self._ended_ms, self.from_ms, dtype=np.float64)
        seconds = np.maximum(0, lasted) / 1000
        timed = np.minimum(self._ended_ms, self.from_ms) >= 0
        if timed.all():
            return seconds
        return [one if known else None for one, known in zip(seconds, timed, strict=True)]

    @property
    def leaders(self) -> list[int | None]:
        return [known(leader) for leader in self.now.leader]

    @property
    def prev_leaders(self) -> list[int | None]:
        return [None if before is None else known(before.leader) for before in self._befores]

    @property
    def isr_added(self) -> list[tuple[int, ...]]:
        each = Memo(without)
        return [each[pair] for pair in zip(self.now.isr, self._isrs_before, strict=True)]

    @property
    def isr_removed(self) -> list[tuple[int, ...]]:
        each = Memo(without)
        return [each[pair] for pair in zip(self._isrs_before, self.now.isr, strict=True)]

    @property
    def _isrs_before(self) -> list[tuple[int, ...]]:
        """Of the first interval its own: nothing came or went."""
        pairs = zip(self.now.isr, self._befores, strict=True)
        return [isr if was is None else was.isr for isr, was in pairs]

    @property
    def states(self) -> list[str]:
        now = self.now
        rows = zip(
            now.leader, now.isr, now.replicas, now.adding, self.min_isr, self._causes, strict=True
        )
        each = Memo(_state)
        return [each[row] for row in rows]

    @property
    def causes(self) -> list[str]:
        rows = zip(self._causes, self._befores, self._nows, strict=True)
        return [cause or cause_of(was or now, now) for cause, was, now in rows]

    @property
    def unclean(self) -> list[bool]:
        return [state == RECOVERING for state in self.now.leader_recovery_state]


class Memo(dict[Any, Any]):
    """What a function gives, by its arguments: those of most rows are the same few."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self._function = function

    def __missing__(self, arguments: tuple[Any, ...]) -> Any:
        made = self[arguments] = self._function(*arguments)
        return made


def _state(
    leader: int,
    isr: tuple[int, ...],
    replicas: tuple[int, ...],
    adding: tuple[int, ...],
    min_isr: int,
    cause: str,
) -> str:
    """How good it is, as operators count it."""
    if cause == "delete":
        return "deleted"
    if leader == NO_LEADER:
        return "offline"
    if len(isr) < min_isr:
        return "under_min_isr"
    wanted = len(set(replicas) - set(adding)) if adding else len(replicas)
    return "under_replicated" if len(isr) < wanted else "ok"


class OpenTopic(NamedTuple):
    """A topic with the intervals that go on, by partition."""

    id_text: str
    name: str
    intervals: dict[int, Interval]


class PartitionHistory(Fold):
    """Replays metadata records; finished intervals become rows."""

    RECORDS: ClassVar[Sequence[type[Message]]] = (*TOPIC_RECORDS, ConfigRecord)

    def __init__(self) -> None:
        super().__init__()
        self._topics = Topics()
        self._open: dict[bytes, OpenTopic] = {}

    def replay(self, step: Step) -> None:
        message = step.message
        if type(message) is PartitionChangeRecord:  # most of a log
            _, number, before, after = self._topics.delta.topics.change_partition(message)
            self._followed(self._open[message.topic_id], number, before, after, step.moment)
            return
        if isinstance(message, RemoveTopicRecord):
            self._removed(message, step.moment)
        elif isinstance(message, ConfigRecord):
            self._configured(message, step.moment)
        for topic, number, before, after in self._topics.changes(step):
            opened = self._open.get(topic.id)
            if opened is None:
                opened = OpenTopic(self._topics.id_text(topic.id), topic.name, {})
                self._open[topic.id] = opened
            if isinstance(message, PartitionRecord):
                cause = "snapshot" if step.from_snapshot else "create"
                minimum = self._min_isr(topic.name)
                first = Interval(step.moment, after, minimum, cause, None)
                opened.intervals[number] = first
            else:
                self._followed(opened, number, before, after, step.moment)

    def _followed(
        self,
        topic: OpenTopic,
        number: int,
        before: PartitionImage | None,
        after: PartitionImage,
        moment: Moment,
    ) -> None:
        """One interval ends, and the next begins."""
        intervals = topic.intervals
        old = intervals[number]
        intervals[number] = _interval((moment, after, old.min_isr, "", before))
        self.rows.append((topic.id_text, topic.name, number, old, moment, moment.timestamp_ms))

    def finish(self, last: Moment) -> None:
        """The intervals that are still open, measured up to the last record."""
        for topic in self._open.values():
            for number, interval in topic.intervals.items():
                self._close(topic, number, interval, None, last)

    def _removed(self, message: RemoveTopicRecord, moment: Moment) -> None:
        topic = self._open.pop(message.topic_id, None)
        if topic is None:
            return  # without partitions
        for number, old in topic.intervals.items():
            self._close(topic, number, old, moment, moment)
            end = old._replace(since=moment, cause="delete", before=old.now)
            self._close(topic, number, end, moment, moment)

    def _min_isr(self, topic: str) -> int:
        changed = self._topics.delta.configs.changed
        for resource in ((TOPIC_RESOURCE, topic), EVERYWHERE):
            value = changed.get(resource, {}).get(MIN_ISR)
            if value is not None and value.isdecimal():
                return int(value)
        return MIN_ISR_DEFAULT

    def _configured(self, record: ConfigRecord, moment: Moment) -> None:
        """A new minimum ends an interval, unless it came with the partition's creation.

        The record is replayed here, and once more with the others: to set a value twice changes nothing.
        """
        if record.name != MIN_ISR:
            return
        self._topics.delta.replay(record)
        is_default = (record.resource_type, record.resource_name) == EVERYWHERE
        for topic in self._open.values():
            if is_default or (record.resource_type, record.resource_name) == (
                TOPIC_RESOURCE,
                topic.name,
            ):
                self._reconfigure(topic, self._min_isr(topic.name), moment)

    def _reconfigure(self, topic: OpenTopic, minimum: int, moment: Moment) -> None:
        for number, old in topic.intervals.items():
            if old.min_isr == minimum:
                continue
            if old.since.timestamp_ms == moment.timestamp_ms:
                topic.intervals[number] = old._replace(min_isr=minimum)
            else:
                topic.intervals[number] = Interval(moment, old.now, minimum, "config", old.now)
                self._close(topic, number, old, moment, moment)

    def _close(
        self,
        topic: OpenTopic,
        number: int,
        interval: Interval,
        end: Moment | None,
        measured_to: Moment,
    ) -> None:
        ended = measured_to.timestamp_ms
        self.rows.append((topic.id_text, topic.name, number, interval, end, ended))


def _span(row: Row) -> Span:
    interval, end = row[3], row[4]
    return interval.since.offset, None if end is None else end.offset


TABLE = folded(
    "partition_history",
    "What every partition's leader and ISR were, from when to when, and why it changed.",
    COLUMNS,
    PartitionHistory,
    plan="whole",
    options=("topics",),
    apart=Parts,
    span=_span,
)
