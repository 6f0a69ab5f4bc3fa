"""`partition_history`: what every partition's leader and ISR were, from when to when, and how good that was.

One row for each time between two changes of a partition; the last row of a living partition has no end, and its seconds
count to the last committed record. States, worst first: `offline` (no leader), `under_min_isr`, `under_replicated`
(replicas being added do not count), `ok`; a row `deleted` of no length ends a removed partition.

Source: KIP-631, KIP-966. `min_isr` is as the metadata log says (topic, then cluster default); a broker's own static
default is not in the log: 1 is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from quorum.metadata.delta import MetadataDelta
from quorum.metadata.image import EMPTY, NO_LEADER, TOPIC_RESOURCE, PartitionImage
from quorum.metadata.topics_delta import partition_of
from spark.column import BOOL, INT, INTS, LONG, STRING, TIMESTAMP, Codes, Column, Repeated
from spark.kafka_metadata.tables.fold import Fold, Row, Span, folded
from spark.kafka_metadata.tables.partitions import (
    RECOVERING,
    TOPIC_RECORDS,
    cause_of,
    known,
    without,
)
from spark.kafka_metadata.tables.standings import (
    Place,
    Standing,
    apart,
    changed,
    created,
    merged,
    place_of,
)
from spark.kafka_metadata.tables.walk import Moment, Step
from wire.errors import RemoteProtocolError
from wire.primitives import uuid_to_text
from wire.records.configs import ConfigRecord
from wire.records.metadata import decode_metadata_record
from wire.records.topics import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from wire.schema import Message

MIN_ISR = "min.insync.replicas"
MIN_ISR_DEFAULT = 1
EVERYWHERE = (4, "")  # the resource of what holds for all brokers


def of_changes(cells: Callable[[Changes], Sequence[Any]]) -> Callable[[Parts], Repeated]:
    """A column whose cells are made once for each distinct change: those of most rows are the same few."""
    return lambda parts: Repeated(cells(parts.changes), parts.codes)


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
        cells=of_changes(lambda changes: changes.leaders),
    ),
    Column(
        "prev_leader",
        INT,
        "the leader before; null: none, or the first interval",
        cells=of_changes(lambda changes: changes.prev_leaders),
    ),
    Column(
        "leader_epoch",
        INT,
        "grows with each election",
        "PartitionRecord.leaderEpoch",
        cells=lambda parts: parts.leader_epoch,
    ),
    Column(
        "partition_epoch",
        INT,
        "grows with each change",
        "PartitionRecord.partitionEpoch",
        cells=lambda parts: parts.partition_epoch,
    ),
    Column(
        "replicas",
        INTS,
        "brokers, the preferred leader first",
        "PartitionRecord.replicas",
        cells=of_changes(lambda changes: changes.now.replicas),
    ),
    Column(
        "isr",
        INTS,
        "in-sync replicas",
        "PartitionChangeRecord.isr",
        cells=of_changes(lambda changes: changes.now.isr),
    ),
    Column(
        "isr_added",
        INTS,
        "in the ISR, and not in that before",
        cells=of_changes(lambda changes: changes.isr_added),
    ),
    Column(
        "isr_removed",
        INTS,
        "in the ISR before, and no longer",
        cells=of_changes(lambda changes: changes.isr_removed),
    ),
    Column(
        "adding",
        INTS,
        "replicas being added",
        "PartitionRecord.addingReplicas",
        cells=of_changes(lambda changes: changes.now.adding),
    ),
    Column(
        "removing",
        INTS,
        "replicas being removed",
        "PartitionRecord.removingReplicas",
        cells=of_changes(lambda changes: changes.now.removing),
    ),
    Column(
        "elr",
        INTS,
        "eligible leaders outside the ISR (KIP-966)",
        "….eligibleLeaderReplicas",
        cells=of_changes(lambda changes: changes.now.elr),
    ),
    Column(
        "min_isr",
        INT,
        "min.insync.replicas as the log says",
        "ConfigRecord",
        cells=of_changes(lambda changes: changes.min_isr),
    ),
    Column(
        "state",
        STRING,
        "ok, under_replicated, under_min_isr, offline, deleted",
        cells=of_changes(lambda changes: changes.states),
    ),
    Column(
        "cause",
        STRING,
        "create, snapshot, leader_change, isr_shrink, isr_expand, reassign, config, delete, other",
        cells=of_changes(lambda changes: changes.causes),
    ),
    Column(
        "unclean",
        BOOL,
        "the leader was not in sync when elected and has not recovered yet",
        "….leaderRecoveryState",
        cells=of_changes(lambda changes: changes.unclean),
    ),
    Column(
        "controller_epoch",
        INT,
        "epoch of the controller that wrote the record",
        cells=lambda parts: parts.controller_epoch,
    ),
)


class Interval(NamedTuple):
    """A partition between two changes; `before` is None in the first, `cause` empty for what both standings tell."""

    since: Moment
    now: Standing
    leader_epoch: int
    partition_epoch: int
    min_isr: int
    cause: str
    before: Standing | None


# As the class does, without a look at names: there is one for every change of a partition.
_interval: Callable[[tuple[object, ...]], Interval] = partial(tuple.__new__, Interval)


class Parts:
    """Some rows taken apart, a sequence for each part of them: tuples in tuples cost more to look into one by one."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.topic_id, self.topic, self.partition, intervals, self._ends, ended = zip(
            *rows, strict=True
        )
        since, nows, self.leader_epoch, self.partition_epoch, *others = zip(*intervals, strict=True)
        self.from_offset, self.from_ms, self.controller_epoch = zip(*since, strict=True)
        self._ended_ms = ended
        each = Codes()
        self.codes = each.of(zip(nows, *others, strict=True), len(rows))
        self.changes = Changes(each)

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


class Changes:
    """What intervals began with, each kind once, taken apart as `Parts` are."""

    def __init__(self, each: Iterable[tuple[Standing, int, str, Standing | None]]) -> None:
        nows, min_isr, self._told, befores = zip(*each, strict=True)
        self.min_isr: tuple[int, ...] = min_isr
        self._elected = [now.is_elected for now in nows]
        self._nows = [now.image for now in nows]
        self._befores = [before and before.image for before in befores]
        # Of each field its values.
        fields: list[Any] = list(zip(*self._nows, strict=True))
        self.now: Any = PartitionImage(*fields)

    @property
    def leaders(self) -> list[int | None]:
        return [known(leader) for leader in self.now.leader]

    @property
    def prev_leaders(self) -> list[int | None]:
        return [None if before is None else known(before.leader) for before in self._befores]

    @property
    def isr_added(self) -> list[tuple[int, ...]]:
        return list(map(without, self.now.isr, self._isrs_before))

    @property
    def isr_removed(self) -> list[tuple[int, ...]]:
        return list(map(without, self._isrs_before, self.now.isr))

    @cached_property
    def _isrs_before(self) -> list[tuple[int, ...]]:
        """Of the first interval its own: nothing came or went."""
        pairs = zip(self.now.isr, self._befores, strict=True)
        return [isr if was is None else was.isr for isr, was in pairs]

    @property
    def states(self) -> list[str]:
        now = self.now
        return list(
            map(_state, now.leader, now.isr, now.replicas, now.adding, self.min_isr, self._told)
        )

    @property
    def causes(self) -> list[str]:
        rows = zip(self._told, self._befores, self._nows, self._elected, strict=True)
        return [told or _cause(was or now, now, elected) for told, was, now, elected in rows]

    @property
    def unclean(self) -> list[bool]:
        return [state == RECOVERING for state in self.now.leader_recovery_state]


def _cause(before: PartitionImage, now: PartitionImage, is_elected: bool) -> str:
    cause = cause_of(before, now)
    return "leader_change" if is_elected and cause == "other" else cause


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


class Partition:
    """A living partition with the interval that goes on."""

    __slots__ = ("interval", "number", "topic")

    def __init__(self, topic: OpenTopic, number: int, interval: Interval) -> None:
        self.topic = topic
        self.number = number
        self.interval = interval


class OpenTopic(NamedTuple):
    """A topic and its partitions, by their places."""

    id_text: str
    name: str
    partitions: dict[Place, Partition]


class PartitionHistory(Fold):
    """Replays metadata records; finished intervals become rows."""

    RECORDS: ClassVar[Sequence[type[Message]]] = (*TOPIC_RECORDS, ConfigRecord)
    RAW: ClassVar[Sequence[type[Message]]] = (PartitionChangeRecord,)

    def __init__(self) -> None:
        super().__init__()
        self._delta = MetadataDelta(EMPTY)  # of topics without their partitions, and of configs
        self._topics: dict[bytes, OpenTopic] = {}
        self._partitions: dict[Place, Partition] = {}

    def replay(self, step: Step) -> None:
        message = step.message
        if type(message) is bytes:  # most of a log
            place, says = apart(message)
            partition = self._partitions.get(place)
            now = None if partition is None else changed(partition.interval.now, says)
            if partition is None or now is None:
                self._not_followed(message)
            else:
                self._followed(partition, now, step.moment)
        elif isinstance(message, PartitionChangeRecord):
            self._changed(message, step.moment)
        elif isinstance(message, PartitionRecord):
            self._created(message, step)
        else:
            self._replay_other(message, step.moment)

    def _not_followed(self, message: bytes) -> None:
        """Malformed, which is no end of an analysis; else of a partition that is not there."""
        try:
            record = decode_metadata_record(message)
        except RemoteProtocolError:
            return
        assert isinstance(record, PartitionChangeRecord)
        self._partition_of(record)

    def _partition_of(self, record: PartitionChangeRecord) -> Partition:
        """Raises RemoteProtocolError."""
        topic = self._topic(record.topic_id)
        partition = topic.partitions.get(place_of(record))
        if partition is None:
            raise RemoteProtocolError(
                f"the metadata log changes partition {record.partition_id} of {topic.name}, which does not exist"
            )
        return partition

    def _topic(self, topic_id: bytes) -> OpenTopic:
        """Raises RemoteProtocolError."""
        topic = self._topics.get(topic_id)
        if topic is None:
            text = uuid_to_text(topic_id)
            raise RemoteProtocolError(
                f"the metadata log changes topic {text}, which does not exist"
            )
        return topic

    def _changed(self, record: PartitionChangeRecord, moment: Moment) -> None:
        partition = self._partition_of(record)
        self._followed(partition, merged(partition.interval.now, record), moment)

    def _created(self, record: PartitionRecord, step: Step) -> None:
        topic, place = self._topic(record.topic_id), place_of(record)
        cause = "snapshot" if step.from_snapshot else "create"
        image = partition_of(record)
        interval = Interval(
            step.moment,
            created(image),
            image.leader_epoch,
            image.partition_epoch,
            self._min_isr(topic.name),
            cause,
            None,
        )
        partition = Partition(topic, record.partition_id, interval)
        topic.partitions[place] = self._partitions[place] = partition

    def _replay_other(self, message: Message, moment: Moment) -> None:
        if isinstance(message, RemoveTopicRecord):
            self._removed(message, moment)
        elif isinstance(message, ConfigRecord):
            self._configured(message, moment)
        self._delta.replay(message)
        if isinstance(message, TopicRecord):
            topic = OpenTopic(uuid_to_text(message.topic_id), message.name, {})
            self._topics.setdefault(message.topic_id, topic)
        elif isinstance(message, ClearElrRecord):
            self._cleared(message, moment)

    def _cleared(self, record: ClearElrRecord, moment: Moment) -> None:
        change = PartitionChangeRecord(
            topic_id=bytes(16), eligible_leader_replicas=[], last_known_elr=[]
        )
        for topic in self._topics.values():
            if record.topic_name in ("", topic.name):
                for partition in topic.partitions.values():
                    now = partition.interval.now
                    if now.image.elr or now.image.last_known_elr:
                        self._followed(partition, merged(now, change), moment)

    def _followed(self, partition: Partition, now: Standing, moment: Moment) -> None:
        """One interval ends, and the next begins."""
        old, topic = partition.interval, partition.topic
        _, before, leader_epoch, partition_epoch, minimum, _, _ = old
        elected = leader_epoch + now.is_elected
        partition.interval = _interval(
            (moment, now, elected, partition_epoch + 1, minimum, "", before)
        )
        ended = moment.timestamp_ms
        self.rows.append((topic.id_text, topic.name, partition.number, old, moment, ended))

    def finish(self, last: Moment) -> None:
        """The intervals that are still open, measured up to the last record."""
        for topic in self._topics.values():
            for partition in topic.partitions.values():
                self._close(partition, partition.interval, None, last)

    def _removed(self, message: RemoveTopicRecord, moment: Moment) -> None:
        topic = self._topics.pop(message.topic_id, None)
        if topic is None:
            return  # the delta says what is wrong
        for place, partition in topic.partitions.items():
            del self._partitions[place]
            old = partition.interval
            self._close(partition, old, moment, moment)
            end = old._replace(since=moment, cause="delete", before=old.now)
            self._close(partition, end, moment, moment)

    def _min_isr(self, topic: str) -> int:
        changed = self._delta.configs.changed
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
        self._delta.replay(record)
        is_default = (record.resource_type, record.resource_name) == EVERYWHERE
        for topic in self._topics.values():
            if is_default or (record.resource_type, record.resource_name) == (
                TOPIC_RESOURCE,
                topic.name,
            ):
                self._reconfigure(topic, self._min_isr(topic.name), moment)

    def _reconfigure(self, topic: OpenTopic, minimum: int, moment: Moment) -> None:
        for partition in topic.partitions.values():
            old = partition.interval
            if old.min_isr == minimum:
                continue
            if old.since.timestamp_ms == moment.timestamp_ms:
                partition.interval = old._replace(min_isr=minimum)
            else:
                partition.interval = old._replace(
                    since=moment, min_isr=minimum, cause="config", before=old.now
                )
                self._close(partition, old, moment, moment)

    def _close(
        self, partition: Partition, interval: Interval, end: Moment | None, measured_to: Moment
    ) -> None:
        topic, ended = partition.topic, measured_to.timestamp_ms
        self.rows.append((topic.id_text, topic.name, partition.number, interval, end, ended))


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
