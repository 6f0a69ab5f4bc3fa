"""`partition_history`: the leader, the ISR and the state of every partition over time.

One row for each time between two changes of a partition; the last row of a living partition has no end, and its seconds
count to the last committed record. States, worst first: `offline` (no leader), `under_min_isr`, `under_replicated`
(replicas being added do not count), `ok`; a row `deleted` of zero length ends the history of a removed partition.

Source: KIP-631, KIP-966. `min_isr` comes from the metadata log (topic, then cluster default); the static default of a
broker is not in the log, so 1 is assumed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import ClassVar, NamedTuple

import pyarrow as pa

from trimaran.quorum.metadata.delta import MetadataDelta
from trimaran.quorum.metadata.image import EMPTY, NO_LEADER, TOPIC_RESOURCE, PartitionImage
from trimaran.quorum.metadata.topics_delta import partition_of
from trimaran.spark.data_source.columns import (
    BOOL,
    INT,
    INTS,
    LONG,
    STRING,
    TIMESTAMP,
    Column,
    field,
)
from trimaran.spark.kafka_metadata.log_walk.decoding import FRAME_BYTES, malformed
from trimaran.spark.kafka_metadata.log_walk.fold import Fold, folded
from trimaran.spark.kafka_metadata.log_walk.walk import (
    ONGOING,
    Moment,
    Ongoing,
    WalkStep,
    seconds_between,
)
from trimaran.spark.kafka_metadata.topic_histories.partition_states import (
    REMEMBERED_MAX,
    PartitionState,
    Place,
    apart,
    changed,
    created,
    merged,
    place_of,
)
from trimaran.spark.kafka_metadata.topic_histories.partitions import (
    RECOVERING,
    TOPIC_RECORDS,
    cause_of,
    known,
    without,
)
from trimaran.wire.buffers.primitives import uuid_to_text
from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.identity import LeaderEpoch, Offset, PartitionEpoch
from trimaran.wire.records.configs import ConfigRecord
from trimaran.wire.records.metadata import decode_metadata_record
from trimaran.wire.records.topics import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from trimaran.wire.schema import Message

MIN_ISR = "min.insync.replicas"
MIN_ISR_DEFAULT = 1
EVERYWHERE = (4, "")  # the resource of configs of all brokers


class PartitionTransition(NamedTuple):
    """A change of a partition, without its time and place: many rows share the same change.

    `before` is None in the first interval of a partition. `cause` is empty if it can be derived from the two states.
    """

    now: PartitionState
    min_isr: int
    cause: str
    before: PartitionState | None

    @property
    def image(self) -> PartitionImage:
        return self.now.image

    @property
    def isr_before(self) -> tuple[int, ...]:
        """Returns the previous ISR; in the first interval the current ISR, since no broker joined or left."""
        return self.image.isr if self.before is None else self.before.image.isr

    @property
    def shown_cause(self) -> str:
        if self.cause:
            return self.cause
        cause = cause_of(self.image if self.before is None else self.before.image, self.image)
        return "leader_change" if self.now.is_elected and cause == "other" else cause

    @property
    def state(self) -> str:
        """Returns the state of the partition as operators count it."""
        image = self.image
        if self.cause == "delete":
            return "deleted"
        if image.leader == NO_LEADER:
            return "offline"
        if len(image.isr) < self.min_isr:
            return "under_min_isr"
        added = set(image.adding)
        wanted = len(set(image.replicas) - added) if added else len(image.replicas)
        return "under_replicated" if len(image.isr) < wanted else "ok"


class IntervalRow(NamedTuple):
    """A row: a partition between two changes.

    The length of an `ONGOING` interval counts up to `measured_to`.
    """

    topic_id: str
    topic: str
    number: int
    since: Moment
    change: PartitionTransition
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    end: Moment | Ongoing
    measured_to: Moment


CHANGE = field("change")
# fmt: off
COLUMNS = (
    Column("topic_id", STRING, field("topic_id"), "the topic's id", "TopicRecord.topicId"),
    Column("topic", STRING, field("topic"), "its name", "TopicRecord.name"),
    Column("partition", INT, field("number"), "the partition", "PartitionRecord.partitionId"),
    Column("from_offset", LONG, field("since.offset"), "the record that began it"),
    Column("to_offset", LONG, field("end.offset"), "the record that ended it; null: it continues"),
    Column("from_ts", TIMESTAMP, field("since.timestamp_ms"), "when it began", unit="UTC"),
    Column("to_ts", TIMESTAMP, field("end.timestamp_ms"), "when it ended; null: it continues", unit="UTC"),
    Column("seconds", pa.float64(), lambda row: seconds_between(row.since, row.measured_to),
           "its length, of the last interval to the log's end; null: no time", unit="s"),
    Column("leader", INT, lambda change: known(change.image.leader), "the leader; null: none",
           "PartitionChangeRecord.leader", shared=CHANGE),
    Column("prev_leader", INT, lambda change: change.before and known(change.before.image.leader),
           "the leader before; null: none, or the first interval", shared=CHANGE),
    Column("leader_epoch", INT, field("leader_epoch"), "grows with each election", "PartitionRecord.leaderEpoch"),
    Column("partition_epoch", INT, field("partition_epoch"), "grows with each change",
           "PartitionRecord.partitionEpoch"),
    Column("replicas", INTS, lambda change: change.image.replicas, "brokers, the preferred leader first",
           "PartitionRecord.replicas", shared=CHANGE),
    Column("isr", INTS, lambda change: change.image.isr, "in-sync replicas", "PartitionChangeRecord.isr",
           shared=CHANGE),
    Column("isr_added", INTS, lambda change: without(change.image.isr, change.isr_before),
           "in the ISR, and not in that before", shared=CHANGE),
    Column("isr_removed", INTS, lambda change: without(change.isr_before, change.image.isr),
           "in the ISR before, and no longer", shared=CHANGE),
    Column("adding", INTS, lambda change: change.image.adding, "replicas being added", "PartitionRecord.addingReplicas",
           shared=CHANGE),
    Column("removing", INTS, lambda change: change.image.removing, "replicas being removed",
           "PartitionRecord.removingReplicas", shared=CHANGE),
    Column("elr", INTS, lambda change: change.image.elr, "eligible leaders outside the ISR (KIP-966)",
           "….eligibleLeaderReplicas", shared=CHANGE),
    Column("min_isr", INT, lambda change: change.min_isr, "min.insync.replicas as the log says", "ConfigRecord",
           shared=CHANGE),
    Column("state", STRING, lambda change: change.state, "ok, under_replicated, under_min_isr, offline, deleted",
           shared=CHANGE),
    Column("cause", STRING, lambda change: change.shown_cause,
           "create, snapshot, leader_change, isr_shrink, isr_expand, reassign, config, delete, other", shared=CHANGE),
    Column("unclean", BOOL, lambda change: change.image.leader_recovery_state == RECOVERING,
           "the leader was not in sync when elected and has not recovered yet", "….leaderRecoveryState", shared=CHANGE),
    Column("controller_epoch", INT, field("since.epoch"), "epoch of the controller that wrote the record"),
)
# fmt: on


# Builds a row without the checks of its class: there is one for every change of a partition.
_row: Callable[[tuple[object, ...]], IntervalRow] = partial(tuple.__new__, IntervalRow)


@lru_cache(REMEMBERED_MAX)
def _change(now: PartitionState, min_isr: int, before: PartitionState) -> PartitionTransition:
    """Returns one object for equal changes whose cause follows from the states."""
    return PartitionTransition(now, min_isr, "", before)


@dataclass(slots=True, eq=False)
class LivingPartition:
    """A living partition, with its current interval: the change that began it, and its moment."""

    topic: OpenTopic
    number: int
    since: Moment
    change: PartitionTransition
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch


class OpenTopic(NamedTuple):
    """A topic and its partitions by index."""

    id_text: str
    name: str
    partitions: dict[Place, LivingPartition]


class PartitionHistoryFold(Fold):
    """Replays metadata records; finished intervals become rows."""

    RECORDS: ClassVar[Sequence[type[Message]]] = (*TOPIC_RECORDS, ConfigRecord)
    RAW: ClassVar[Sequence[type[Message]]] = (PartitionChangeRecord,)

    def __init__(self) -> None:
        super().__init__()
        # The states of topics without their partitions, and of configs.
        self._delta = MetadataDelta(EMPTY)
        self._topics: dict[bytes, OpenTopic] = {}
        self._partitions: dict[Place, LivingPartition] = {}

    def replay(self, step: WalkStep) -> None:
        message = step.message
        if type(message) is bytes:  # the type of most records of a log
            place, says = apart(message)
            partition = self._partitions.get(place)
            now = None if partition is None else changed(partition.change.now, says)
            if partition is None or now is None:
                self._not_followed(message, step.moment.offset)
            else:
                self._followed(partition, now, step.moment)
        elif isinstance(message, PartitionChangeRecord):
            self._changed(message, step.moment)
        elif isinstance(message, PartitionRecord):
            self._created(message, step)
        else:
            self._replay_other(message, step.moment)

    def _not_followed(self, message: bytes, offset: Offset) -> None:
        """Handles a record that could not be applied: it is malformed, which must not end an analysis, or its partition
        does not exist.
        """
        try:
            record = decode_metadata_record(message)
        except RemoteProtocolError:
            self.unknown.append(malformed(message[:FRAME_BYTES])._replace(offset=offset))
            return
        assert isinstance(record, PartitionChangeRecord)
        self._partition_of(record)

    def _partition_of(self, record: PartitionChangeRecord) -> LivingPartition:
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
        self._followed(partition, merged(partition.change.now, record), moment)

    def _created(self, record: PartitionRecord, step: WalkStep) -> None:
        topic, place = self._topic(record.topic_id), place_of(record)
        cause = "snapshot" if step.from_snapshot else "create"
        image = partition_of(record)
        change = PartitionTransition(created(image), self._min_isr(topic.name), cause, None)
        partition = LivingPartition(
            topic,
            record.partition_id,
            step.moment,
            change,
            image.leader_epoch,
            image.partition_epoch,
        )
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
                    now = partition.change.now
                    if now.image.elr or now.image.last_known_elr:
                        self._followed(partition, merged(now, change), moment)

    def _followed(self, partition: LivingPartition, now: PartitionState, moment: Moment) -> None:
        """Ends one interval and begins the next."""
        self._close(partition, moment, moment)
        before, min_isr, _, _ = partition.change
        partition.since = moment
        partition.change = _change(now, min_isr, before)
        if now.is_elected:
            partition.leader_epoch = LeaderEpoch(partition.leader_epoch + 1)
        partition.partition_epoch = PartitionEpoch(partition.partition_epoch + 1)

    def finish(self, last: Moment) -> None:
        """Ends the intervals that are still open at the last record."""
        for topic in self._topics.values():
            for partition in topic.partitions.values():
                self._close(partition, ONGOING, last)

    def _removed(self, message: RemoveTopicRecord, moment: Moment) -> None:
        topic = self._topics.pop(message.topic_id, None)
        if topic is None:
            return  # the delta raises the appropriate error
        for place, partition in topic.partitions.items():
            del self._partitions[place]
            self._close(partition, moment, moment)
            change = partition.change
            partition.since = moment
            partition.change = change._replace(cause="delete", before=change.now)
            self._close(partition, moment, moment)

    def _min_isr(self, topic: str) -> int:
        changed = self._delta.configs.changed
        for resource in ((TOPIC_RESOURCE, topic), EVERYWHERE):
            value = changed.get(resource, {}).get(MIN_ISR)
            if value is not None and value.isdecimal():
                return int(value)
        return MIN_ISR_DEFAULT

    def _configured(self, record: ConfigRecord, moment: Moment) -> None:
        """Ends intervals at a new minimum, unless it was set together with the creation of the partition.

        The record is replayed here, and again with all other records: setting a value twice changes nothing.
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
            old = partition.change
            if old.min_isr == minimum:
                continue
            change = old._replace(min_isr=minimum)
            if partition.since.timestamp_ms != moment.timestamp_ms:
                self._close(partition, moment, moment)
                partition.since = moment
                change = change._replace(cause="config", before=old.now)
            partition.change = change

    def _close(
        self, partition: LivingPartition, end: Moment | Ongoing, measured_to: Moment
    ) -> None:
        topic = partition.topic
        row = (
            topic.id_text,
            topic.name,
            partition.number,
            partition.since,
            partition.change,
            partition.leader_epoch,
            partition.partition_epoch,
            end,
            measured_to,
        )
        self.rows.append(_row(row))


TABLE = folded(
    "partition_history",
    "The leader and the ISR of every partition over time, with the causes of changes.",
    COLUMNS,
    PartitionHistoryFold,
    plan="whole",
    options=("topics",),
)
