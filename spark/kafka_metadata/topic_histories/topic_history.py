"""`topic_history`: created and deleted topics, added partitions, reassignments that began and ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import pyarrow as pa

from trimaran.spark.data_source.columns import INT, STRING, TIMESTAMP, Column, field
from trimaran.spark.kafka_metadata.log_walk.fold import EventFold, folded, moment_columns
from trimaran.spark.kafka_metadata.log_walk.walk import Moment, WalkStep, seconds_between
from trimaran.spark.kafka_metadata.topic_histories.partitions import (
    TOPIC_RECORDS,
    TopicReplay,
    id_text,
)
from trimaran.wire.identity import TopicIdPartition
from trimaran.wire.records.topics import PartitionRecord, RemoveTopicRecord, TopicRecord
from trimaran.wire.schema import Message

# fmt: off
COLUMNS = (
    *moment_columns("the first record of the change"),
    Column("event", STRING, field("event"),
           "created, partitions_added, reassignment_begun, reassignment_ended, deleted, snapshot"),
    Column("topic_id", STRING, field("topic_id"), "the topic's id", "TopicRecord.topicId"),
    Column("topic", STRING, field("topic"), "its name", "TopicRecord.name"),
    Column("partition", INT, field("partition"), "the partition reassigned; null in other events"),
    Column("partitions", INT, field("partitions"), "how many it has after the event", "PartitionRecord"),
    Column("prev_partitions", INT, field("prev_partitions"), "how many it had before"),
    Column("replication_factor", INT, field("replication_factor"), "replicas of its first partition", "…replicas"),
    Column("created_ts", TIMESTAMP, lambda row: row.created and row.created.timestamp_ms,
           "when it was created; null: before what was read", unit="UTC"),
    Column("seconds", pa.float64(), lambda row: row.since and seconds_between(row.since, row.moment),
           "since it was created (deleted), since the reassignment began (ended); null: not known", unit="s"),
)
# fmt: on


class TopicEvent(NamedTuple):
    """A row: an event of a topic. `since` is the start of the state that the event ends, None if it ends none."""

    moment: Moment
    event: str
    topic_id: str
    topic: str
    partition: int | None
    partitions: int
    prev_partitions: int | None
    replication_factor: int | None
    created: Moment | None
    since: Moment | None


class TopicHistoryFold(EventFold):
    RECORDS: ClassVar[Sequence[type[Message]]] = TOPIC_RECORDS

    def __init__(self) -> None:
        super().__init__()
        self._topics = TopicReplay()
        self._created: dict[bytes, Moment] = {}
        self._new: dict[
            bytes, tuple[WalkStep, int | None]
        ] = {}  # topics whose rows wait for the end of the batch
        self._moving: dict[TopicIdPartition, Moment] = {}

    def take(self, step: WalkStep) -> None:
        message = step.message
        if isinstance(message, RemoveTopicRecord):
            self.settle()
            self._removed(step, message.topic_id)
        for topic, number, before, after in self._topics.changes(step):
            if isinstance(message, PartitionRecord):
                if topic.id not in self._new and before is None:
                    self._new[topic.id] = step, len(topic.partitions) - 1
            elif before is not None:
                moving = bool(after.adding or after.removing)
                if moving != bool(before.adding or before.removing):
                    self._moved(step, topic.id, number, moving)
        if isinstance(message, TopicRecord):
            if not step.from_snapshot:
                self._created[message.topic_id] = step.moment
            self._new[message.topic_id] = step, None

    def _moved(self, step: WalkStep, topic_id: bytes, number: int, moving: bool) -> None:
        began = self._moving.pop(TopicIdPartition(topic_id, number), None)
        if moving:
            self._moving[TopicIdPartition(topic_id, number)] = step.moment
        event = "reassignment_begun" if moving else "reassignment_ended"
        self._add(step.moment, event, topic_id, partition=number, since=None if moving else began)

    def _removed(self, step: WalkStep, topic_id: bytes) -> None:
        created = self._created.pop(topic_id, None)
        self._add(step.moment, "deleted", topic_id, since=created, created=created)

    def settle(self) -> None:
        for topic_id, (step, before) in self._new.items():
            if step.from_snapshot:
                event = "snapshot"
                if not self.shows_snapshot:
                    continue
            else:
                event = "created" if before is None else "partitions_added"
            self._add(step.moment, event, topic_id, before=before)
        self._new.clear()

    def _add(
        self,
        moment: Moment,
        event: str,
        topic_id: bytes,
        *,
        partition: int | None = None,
        before: int | None = None,
        since: Moment | None = None,
        created: Moment | None = None,
    ) -> None:
        topic = self._topics.topic(topic_id)
        if topic is None:
            return
        first, count, is_deleted = (
            topic.partitions.get(0),
            len(topic.partitions),
            event == "deleted",
        )
        row = TopicEvent(
            moment,
            event,
            id_text(topic_id),
            topic.name,
            partition,
            partitions=0 if is_deleted else count,
            prev_partitions=count if is_deleted else before,
            replication_factor=None if first is None else len(first.replicas),
            created=created or self._created.get(topic_id),
            since=since,
        )
        self.rows.append(row)


TABLE = folded(
    "topic_history",
    "Created and deleted topics, added partitions, reassignments.",
    COLUMNS,
    TopicHistoryFold,
    plan="whole",
    options=("topics",),
)
