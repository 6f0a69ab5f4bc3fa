"""`partition_history`: what every partition's leader and ISR were, from when to when, and how good that was.

One row for each time between two changes of a partition; the last row of a living partition has no end, and its seconds
count to the last committed record. States, worst first: `offline` (no leader), `under_min_isr`, `under_replicated`
(replicas being added do not count), `ok`; a row `deleted` of no length ends a removed partition.

Source: KIP-631, KIP-966. `min_isr` is as the metadata log says (topic, then cluster default); a broker's own static
default is not in the log: 1 is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import pyarrow as pa

from quorum.metadata.image import NO_LEADER, TOPIC_RESOURCE, PartitionImage
from quorum.metadata.topics_delta import TopicDelta
from spark.column import BOOL, INT, INTS, LONG, STRING, TIMESTAMP, Column
from spark.kafka_metadata.tables.fold import Fold, folded
from spark.kafka_metadata.tables.partitions import (
    RECOVERING,
    TOPIC_RECORDS,
    Topics,
    cause_of,
    known,
)
from spark.kafka_metadata.tables.walk import Moment, Step
from wire.records.configs import ConfigRecord
from wire.records.topics import PartitionRecord, RemoveTopicRecord
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
        cells=lambda rows: [r[0] for r in rows],
    ),
    Column(
        "topic", STRING, "its name", "TopicRecord.name", cells=lambda rows: [r[1] for r in rows]
    ),
    Column(
        "partition",
        INT,
        "the partition",
        "PartitionRecord.partitionId",
        cells=lambda rows: [r[2] for r in rows],
    ),
    Column(
        "from_offset",
        LONG,
        "the record that began it",
        cells=lambda rows: [r[3].since.offset for r in rows],
    ),
    Column(
        "to_offset",
        LONG,
        "the record that ended it; null: it goes on",
        cells=lambda rows: [None if r[4] is None else r[4].offset for r in rows],
    ),
    Column(
        "from_ts",
        TIMESTAMP,
        "when it began",
        unit="UTC",
        cells=lambda rows: [r[3].since.timestamp_ms for r in rows],
    ),
    Column(
        "to_ts",
        TIMESTAMP,
        "when it ended; null: it goes on",
        unit="UTC",
        cells=lambda rows: [None if r[4] is None else r[4].timestamp_ms for r in rows],
    ),
    Column(
        "seconds",
        pa.float64(),
        "its length, of the last interval to the log's end",
        unit="s",
        cells=lambda rows: [max(0, r[5] - r[3].since.timestamp_ms) / 1000 for r in rows],
    ),
    Column(
        "leader",
        INT,
        "the leader; null: none",
        "PartitionChangeRecord.leader",
        cells=lambda rows: [known(r[3].now.leader) for r in rows],
    ),
    Column(
        "prev_leader",
        INT,
        "the leader before; null: none, or the first interval",
        cells=lambda rows: [
            None if r[3].before is None else known(r[3].before.leader) for r in rows
        ],
    ),
    Column(
        "leader_epoch",
        INT,
        "grows with each election",
        "PartitionRecord.leaderEpoch",
        cells=lambda rows: [r[3].now.leader_epoch for r in rows],
    ),
    Column(
        "partition_epoch",
        INT,
        "grows with each change",
        "PartitionRecord.partitionEpoch",
        cells=lambda rows: [r[3].now.partition_epoch for r in rows],
    ),
    Column(
        "replicas",
        INTS,
        "brokers, the preferred leader first",
        "PartitionRecord.replicas",
        cells=lambda rows: [r[3].now.replicas for r in rows],
    ),
    Column(
        "isr",
        INTS,
        "in-sync replicas",
        "PartitionChangeRecord.isr",
        cells=lambda rows: [r[3].now.isr for r in rows],
    ),
    Column(
        "isr_added",
        INTS,
        "in the ISR, and not in that before",
        cells=lambda rows: [_isr_added(r[3]) for r in rows],
    ),
    Column(
        "isr_removed",
        INTS,
        "in the ISR before, and no longer",
        cells=lambda rows: [_isr_removed(r[3]) for r in rows],
    ),
    Column(
        "adding",
        INTS,
        "replicas being added",
        "PartitionRecord.addingReplicas",
        cells=lambda rows: [r[3].now.adding for r in rows],
    ),
    Column(
        "removing",
        INTS,
        "replicas being removed",
        "PartitionRecord.removingReplicas",
        cells=lambda rows: [r[3].now.removing for r in rows],
    ),
    Column(
        "elr",
        INTS,
        "eligible leaders outside the ISR (KIP-966)",
        "….eligibleLeaderReplicas",
        cells=lambda rows: [r[3].now.elr for r in rows],
    ),
    Column(
        "min_isr",
        INT,
        "min.insync.replicas as the log says",
        "ConfigRecord",
        cells=lambda rows: [r[3].min_isr for r in rows],
    ),
    Column(
        "state",
        STRING,
        "ok, under_replicated, under_min_isr, offline, deleted",
        cells=lambda rows: [
            "deleted" if r[3].cause == "delete" else state_of(r[3].now, r[3].min_isr) for r in rows
        ],
    ),
    Column(
        "cause",
        STRING,
        "create, snapshot, leader_change, isr_shrink, isr_expand, reassign, config, delete, other",
        cells=lambda rows: [_cause(r[3]) for r in rows],
    ),
    Column(
        "unclean",
        BOOL,
        "the leader was not in sync when elected and has not recovered yet",
        "….leaderRecoveryState",
        cells=lambda rows: [r[3].now.leader_recovery_state == RECOVERING for r in rows],
    ),
    Column(
        "controller_epoch",
        INT,
        "epoch of the controller that wrote the record",
        cells=lambda rows: [r[3].since.epoch for r in rows],
    ),
)


class Interval(NamedTuple):
    """A partition between two changes; `before` is None in the first, `cause` empty for what both images tell."""

    since: Moment
    now: PartitionImage
    min_isr: int
    cause: str
    before: PartitionImage | None


def _isr_added(interval: Interval) -> list[int]:
    was = interval.before or interval.now
    return [] if was.isr == interval.now.isr else sorted(set(interval.now.isr) - set(was.isr))


def _isr_removed(interval: Interval) -> list[int]:
    was = interval.before or interval.now
    return [] if was.isr == interval.now.isr else sorted(set(was.isr) - set(interval.now.isr))


def _cause(interval: Interval) -> str:
    assert interval.cause or interval.before is not None
    return interval.cause or cause_of(interval.before or interval.now, interval.now)


class PartitionHistory(Fold):
    """Replays metadata records; finished intervals become rows."""

    RECORDS: ClassVar[Sequence[type[Message]]] = (*TOPIC_RECORDS, ConfigRecord)

    def __init__(self) -> None:
        super().__init__()
        self._topics = Topics()
        self._open: dict[bytes, dict[int, Interval]] = {}

    def replay(self, step: Step) -> None:
        message = step.message
        if isinstance(message, RemoveTopicRecord):
            self._removed(message, step.moment)
        elif isinstance(message, ConfigRecord):
            self._configured(message, step.moment)
        for topic, number, before, after in self._topics.changes(step):
            old = self._open.setdefault(topic.id, {}).get(number)
            if old is None or before is None or isinstance(message, PartitionRecord):
                cause = "snapshot" if step.from_snapshot else "create"
                new = Interval(step.moment, after, self._min_isr(topic.name), cause, None)
            else:
                new = Interval(step.moment, after, old.min_isr, "", before)
                self._close(topic, number, old, step.moment, step.moment)
            self._open[topic.id][number] = new

    def finish(self, last: Moment) -> None:
        """The intervals that are still open, measured up to the last record."""
        for topic_id, intervals in self._open.items():
            topic = self._topics.topic(topic_id)
            assert topic is not None  # removed ones leave `_open`
            for number, interval in intervals.items():
                self._close(topic, number, interval, None, last)

    def _removed(self, message: RemoveTopicRecord, moment: Moment) -> None:
        topic = self._topics.topic(message.topic_id)
        for number, old in self._open.pop(message.topic_id, {}).items():
            assert topic is not None  # it has intervals
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
        for topic_id, intervals in self._open.items():
            topic = self._topics.topic(topic_id)
            if topic is None or not (
                is_default
                or (record.resource_type, record.resource_name) == (TOPIC_RESOURCE, topic.name)
            ):
                continue
            self._reconfigure(topic, intervals, self._min_isr(topic.name), moment)

    def _reconfigure(
        self, topic: TopicDelta, intervals: dict[int, Interval], minimum: int, moment: Moment
    ) -> None:
        for number, old in intervals.items():
            if old.min_isr == minimum:
                continue
            if old.since.timestamp_ms == moment.timestamp_ms:
                intervals[number] = old._replace(min_isr=minimum)
            else:
                intervals[number] = Interval(moment, old.now, minimum, "config", old.now)
                self._close(topic, number, old, moment, moment)

    def _close(
        self,
        topic: TopicDelta,
        number: int,
        interval: Interval,
        end: Moment | None,
        measured_to: Moment,
    ) -> None:
        ended = measured_to.timestamp_ms
        text = self._topics.id_text(topic.id)
        self.rows.append((text, topic.name, number, interval, end, ended))


def state_of(partition: PartitionImage, min_isr: int) -> str:
    """How good it is, as operators count it."""
    if partition.leader == NO_LEADER:
        return "offline"
    size = len(partition.isr)
    if size < min_isr:
        return "under_min_isr"
    wanted = (
        len(set(partition.replicas) - set(partition.adding))
        if partition.adding
        else len(partition.replicas)
    )
    return "under_replicated" if size < wanted else "ok"


TABLE = folded(
    "partition_history",
    "What every partition's leader and ISR were, from when to when, and why it changed.",
    COLUMNS,
    PartitionHistory,
    plan="whole",
    options=("topics",),
)
