"""`topic_history`: births and deaths of topics, added partitions, reassignments begun and ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import pyarrow as pa

from trimaran.spark.data_source.columns import INT, LONG, STRING, TIMESTAMP, Column
from trimaran.spark.kafka_metadata.log_walk.fold import EventFold, folded
from trimaran.spark.kafka_metadata.log_walk.walk import Moment, WalkStep, seconds_between
from trimaran.spark.kafka_metadata.topic_histories.partitions import TOPIC_RECORDS, TopicReplay
from trimaran.wire.records.topics import PartitionRecord, RemoveTopicRecord, TopicRecord
from trimaran.wire.schema import Message

COLUMNS = (
    Column("offset", LONG, "the first record of the change"),
    Column("ts", TIMESTAMP, "when the controller wrote it", unit="UTC"),
    Column("controller_epoch", INT, "epoch of the controller that wrote it"),
    Column(
        "event",
        STRING,
        "created, partitions_added, reassignment_begun, reassignment_ended, deleted, snapshot",
    ),
    Column("topic_id", STRING, "the topic's id", "TopicRecord.topicId"),
    Column("topic", STRING, "its name", "TopicRecord.name"),
    Column("partition", INT, "the partition reassigned; null in other events"),
    Column("partitions", INT, "how many it has after the event", "PartitionRecord"),
    Column("prev_partitions", INT, "how many it had before"),
    Column("replication_factor", INT, "replicas of its first partition", "…replicas"),
    Column("created_ts", TIMESTAMP, "when it was created; null: before what was read", unit="UTC"),
    Column(
        "seconds",
        pa.float64(),
        "since it was created (deleted), since the reassignment began (ended); null: not known",
        unit="s",
    ),
)


class TopicHistoryFold(EventFold):
    RECORDS: ClassVar[Sequence[type[Message]]] = TOPIC_RECORDS

    def __init__(self) -> None:
        super().__init__()
        self._topics = TopicReplay()
        self._created: dict[bytes, Moment] = {}
        self._new: dict[
            bytes, tuple[WalkStep, int | None]
        ] = {}  # to be told when the batch is whole
        self._moving: dict[tuple[bytes, int], Moment] = {}

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
        began = self._moving.pop((topic_id, number), None)
        if moving:
            self._moving[topic_id, number] = step.moment
        event = "reassignment_begun" if moving else "reassignment_ended"
        self._tell(step.moment, event, topic_id, number, None, None if moving else began)

    def _removed(self, step: WalkStep, topic_id: bytes) -> None:
        created = self._created.pop(topic_id, None)
        self._tell(step.moment, "deleted", topic_id, None, None, created, created)

    def settle(self) -> None:
        for topic_id, (step, before) in self._new.items():
            if step.from_snapshot:
                event = "snapshot"
                if not self.tells_snapshot:
                    continue
            else:
                event = "created" if before is None else "partitions_added"
            self._tell(step.moment, event, topic_id, None, before, None)
        self._new.clear()

    def _tell(
        self,
        moment: Moment,
        event: str,
        topic_id: bytes,
        number: int | None,
        before: int | None,
        since: Moment | None,
        created: Moment | None = None,
    ) -> None:
        topic = self._topics.topic(topic_id)
        if topic is None:
            return
        created = created or self._created.get(topic_id)
        first = topic.partitions.get(0)
        self.rows.append(
            (
                *moment,
                event,
                self._topics.id_text(topic_id),
                topic.name,
                number,
                0 if event == "deleted" else len(topic.partitions),
                len(topic.partitions) if event == "deleted" else before,
                None if first is None else len(first.replicas),
                None if created is None else created.timestamp_ms,
                None if since is None else seconds_between(since, moment),
            )
        )


TABLE = folded(
    "topic_history",
    "Births and deaths of topics, added partitions, reassignments.",
    COLUMNS,
    TopicHistoryFold,
    plan="whole",
    options=("topics",),
)
