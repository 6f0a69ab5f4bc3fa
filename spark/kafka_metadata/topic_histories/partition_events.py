"""`isr_changes` and `leader_changes`: one row for each change of a partition's ISR or leader, with the cause.

The cause is the log's record about the broker that left: a controller writes the changes of partitions first and then
the fencing of the broker, in the same batch or in one soon after.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar, NamedTuple

from trimaran.quorum.metadata.image import NO_LEADER, PartitionImage
from trimaran.quorum.metadata.topics_delta import TopicDelta
from trimaran.spark.data_source.columns import BOOL, INT, INTS, STRING, Column, field
from trimaran.spark.kafka_metadata.log_walk.fold import EventFold, folded, moment_columns
from trimaran.spark.kafka_metadata.log_walk.walk import Moment, WalkStep
from trimaran.spark.kafka_metadata.topic_histories.partitions import (
    BROKER_RECORDS,
    RECOVERING,
    TOPIC_RECORDS,
    TopicReplay,
    cause_of,
    known,
    remembered_without,
    without,
)
from trimaran.wire.buffers.primitives import uuid_to_text
from trimaran.wire.records.topics import PartitionChangeRecord, PartitionRecord
from trimaran.wire.schema import Message

ISRS = field("before.isr", "after.isr")
# fmt: off
_PLACE = (
    *moment_columns(source="PartitionChangeRecord"),
    Column("topic_id", STRING, uuid_to_text, "the topic's id", "TopicRecord.topicId", shared=field("topic.image.id")),
    Column("topic", STRING, field("topic.image.name"), "its name", "TopicRecord.name"),
    Column("partition", INT, field("number"), "the partition", "PartitionChangeRecord.partitionId"),
)
# fmt: off
# fmt: on
# fmt: off
ISR_COLUMNS = (
    *_PLACE,
    Column("leader", INT, known, "the leader after the change; null: none", shared=field("after.leader")),
    Column("isr_before", INTS, field("before.isr"), "the ISR before"),
    Column("isr", INTS, field("after.isr"), "the ISR after", "PartitionChangeRecord.isr"),
    Column("added", INTS, lambda isrs: without(isrs[1], isrs[0]), "brokers that joined", shared=ISRS),
    Column("removed", INTS, lambda isrs: without(*isrs), "brokers that left", shared=ISRS),
    Column("replicas", INTS, field("after.replicas"), "all replicas"),
    Column("cause", STRING, field("cause"),
           "fenced, controlled_shutdown, unregistered: the broker that left; lag: it fell behind; caught_up; reassign; "
           "election"),
)
# fmt: on
# fmt: off
# fmt: on
# fmt: off
LEADER_COLUMNS = (
    *_PLACE,
    Column("prev_leader", INT, known, "the leader before; null: none", shared=field("before.leader")),
    Column("leader", INT, known, "the leader after; null: none", "PartitionChangeRecord.leader",
           shared=field("after.leader")),
    Column("leader_epoch", INT, field("after.leader_epoch"), "epoch of the new leader"),
    Column("replicas", INTS, field("after.replicas"), "all replicas, the preferred leader first"),
    Column("isr", INTS, field("after.isr"), "the ISR after"),
    Column("elr", INTS, field("after.elr"), "eligible leaders outside the ISR (KIP-966)"),
    Column("preferred", BOOL, lambda row: row.after.leader == row.after.preferred_leader,
           "the new leader is the first replica"),
    Column("unclean", BOOL, lambda row: row.after.leader_recovery_state == RECOVERING,
           "it was not in sync: records may be lost", "…leaderRecoveryState"),
    Column("cause", STRING, field("cause"),
           "fenced, controlled_shutdown, unregistered: the old leader; returned: there was none; preferred; reassign; "
           "other"),
)
# fmt: on
# fmt: on


# A controller that fences a broker moves its partitions away first: ours in several batches, Kafka's in one.
FENCE_MS = 1000


class PartitionEvent(NamedTuple):
    """A row: a change of a partition. Its cause is None while a later batch may still reveal it."""

    moment: Moment
    topic: TopicDelta
    number: int
    before: PartitionImage
    after: PartitionImage
    cause: str | None


# Builds the tuple without the checks of its class, since most changes of a partition have one.
_event: Callable[[tuple[object, ...]], PartitionEvent] = partial(tuple.__new__, PartitionEvent)


class PartitionEventFold(EventFold):
    """The base of the folds of both tables, which differ in the changes that count as events, and in their causes."""

    RECORDS: ClassVar[Sequence[type[Message]]] = (*TOPIC_RECORDS, *BROKER_RECORDS)

    def __init__(self) -> None:
        super().__init__()
        self.topics = TopicReplay()
        self._pending: list[PartitionEvent] = []  # those of a batch that is not complete yet
        # Those of earlier batches whose cause is not known yet, and all events after them.
        self._waiting: list[PartitionEvent] = []
        self._has_news = False  # records about a broker in this batch

    def take(self, step: WalkStep) -> None:
        message = step.message
        if type(message) is PartitionChangeRecord:  # the type of most records of a log
            self._changed(step, *self.topics.delta.topics.change_partition(message))
            return
        self._has_news |= isinstance(message, BROKER_RECORDS)
        for change in self.topics.changes(step):
            if not isinstance(message, PartitionRecord):
                self._changed(step, *change)

    def _changed(
        self,
        step: WalkStep,
        topic: TopicDelta,
        number: int,
        before: PartitionImage | None,
        after: PartitionImage,
    ) -> None:
        if before is not None and not step.from_snapshot and self.is_event(before, after):
            self._pending.append(_event((step.moment, topic, number, before, after, None)))

    def settle(self) -> None:
        if self._waiting and (self._has_news or self._waited_long_enough()):
            self._explain()
        for event in self._pending:
            known_event = event if self._is_open(event) else self._with_cause(event)
            if known_event.cause is None or self._waiting:
                self._waiting.append(known_event)
            else:
                self.rows.append(known_event)
        self._pending.clear()
        self._has_news = False

    def finish(self, last: Moment) -> None:
        super().finish(last)
        self._explain()

    def _waited_long_enough(self) -> bool:
        first = self._waiting[0].moment.timestamp_ms
        return any(event.moment.timestamp_ms - first > FENCE_MS for event in self._pending[:1])

    def _is_open(self, event: PartitionEvent) -> bool:
        """True if brokers that lost the partition still serve: their fencing may follow in a later batch."""
        lost = remembered_without(event.before.isr, event.after.isr)
        if event.before.leader not in (event.after.leader, NO_LEADER):
            lost = (*lost, event.before.leader)
        return bool(lost) and not any(map(self.topics.why_gone, lost))

    def _explain(self) -> None:
        """Converts the waiting events to rows, with the current states of brokers."""
        self.rows += [
            self._with_cause(event) if event.cause is None else event for event in self._waiting
        ]
        self._waiting.clear()

    def _with_cause(self, event: PartitionEvent) -> PartitionEvent:
        moment, topic, number, before, after, _ = event
        return _event((moment, topic, number, before, after, self.cause(before, after)))

    def is_event(self, before: PartitionImage, after: PartitionImage) -> bool:
        raise NotImplementedError

    def cause(self, before: PartitionImage, after: PartitionImage) -> str:
        raise NotImplementedError


class IsrChangeFold(PartitionEventFold):
    def is_event(self, before: PartitionImage, after: PartitionImage) -> bool:
        isr = after.isr
        return before.isr is not isr and bool(
            remembered_without(before.isr, isr) or remembered_without(isr, before.isr)
        )

    def cause(self, before: PartitionImage, after: PartitionImage) -> str:
        removed = remembered_without(before.isr, after.isr)
        for broker_id in removed:
            if reason := self.topics.why_gone(broker_id):
                return reason
        kind = cause_of(before, after)
        if kind == "reassign":
            return kind
        if after.leader_recovery_state == RECOVERING or (kind == "leader_change" and removed):
            return "election"
        return "lag" if removed else "caught_up"


class LeaderChangeFold(PartitionEventFold):
    def is_event(self, before: PartitionImage, after: PartitionImage) -> bool:
        return before.leader != after.leader

    def cause(self, before: PartitionImage, after: PartitionImage) -> str:
        if before.leader == NO_LEADER:
            return "returned"
        if reason := self.topics.why_gone(before.leader):
            return reason
        if before.replicas != after.replicas:
            return "reassign"
        return "preferred" if after.leader == after.preferred_leader else "other"


ISR_CHANGES = folded(
    "isr_changes",
    "Each change of a partition's in-sync replicas, and why.",
    ISR_COLUMNS,
    IsrChangeFold,
    options=("topics",),
)
LEADER_CHANGES = folded(
    "leader_changes",
    "Each change of a partition's leader, and why.",
    LEADER_COLUMNS,
    LeaderChangeFold,
    options=("topics",),
)
