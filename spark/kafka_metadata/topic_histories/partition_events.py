"""`isr_changes` and `leader_changes`: one row for each change of a partition's ISR or leader, with the reason.

The reason is what the log says of the broker that left: a controller writes the changes of partitions first, and the
fencing of the broker behind them, in the same batch or in one soon after.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from trimaran.quorum.metadata.image import NO_LEADER, PartitionImage
from trimaran.quorum.metadata.topics_delta import TopicDelta
from trimaran.spark.data_source.columns import BOOL, INT, INTS, LONG, STRING, TIMESTAMP, Column
from trimaran.spark.kafka_metadata.log_walk.fold import EventFold, Row, folded
from trimaran.spark.kafka_metadata.log_walk.walk import Moment, WalkStep
from trimaran.spark.kafka_metadata.topic_histories.partitions import (
    BROKER_RECORDS,
    RECOVERING,
    TOPIC_RECORDS,
    TopicReplay,
    cause_of,
    known,
    remembered_without,
)
from trimaran.wire.records.topics import PartitionChangeRecord, PartitionRecord
from trimaran.wire.schema import Message

_PLACE = (
    Column("offset", LONG, "the record", "PartitionChangeRecord"),
    Column("ts", TIMESTAMP, "when the controller wrote it", unit="UTC"),
    Column("controller_epoch", INT, "epoch of the controller that wrote it"),
    Column("topic_id", STRING, "the topic's id", "TopicRecord.topicId"),
    Column("topic", STRING, "its name", "TopicRecord.name"),
    Column("partition", INT, "the partition", "PartitionChangeRecord.partitionId"),
)
ISR_COLUMNS = (
    *_PLACE,
    Column("leader", INT, "the leader after the change; null: none"),
    Column("isr_before", INTS, "the ISR before"),
    Column("isr", INTS, "the ISR after", "PartitionChangeRecord.isr"),
    Column("added", INTS, "brokers that came in"),
    Column("removed", INTS, "brokers that went out"),
    Column("replicas", INTS, "all replicas"),
    Column(
        "cause",
        STRING,
        "fenced, controlled_shutdown, unregistered: the broker that left; lag: it fell behind; caught_up; reassign; "
        "election",
    ),
)
LEADER_COLUMNS = (
    *_PLACE,
    Column("prev_leader", INT, "the leader before; null: none"),
    Column("leader", INT, "the leader after; null: none", "PartitionChangeRecord.leader"),
    Column("leader_epoch", INT, "epoch of the new leader"),
    Column("replicas", INTS, "all replicas, the preferred leader first"),
    Column("isr", INTS, "the ISR after"),
    Column("elr", INTS, "eligible leaders outside the ISR (KIP-966)"),
    Column("preferred", BOOL, "the new leader is the first replica"),
    Column("unclean", BOOL, "it was not in sync: records may be lost", "…leaderRecoveryState"),
    Column(
        "cause",
        STRING,
        "fenced, controlled_shutdown, unregistered: the old leader; returned: there was none; preferred; reassign; "
        "other",
    ),
)


# A controller that fences a broker takes its partitions away first, ours in several batches, Kafka's in one.
FENCE_MS = 1000


class Pending(NamedTuple):
    """A change whose batch is not yet whole."""

    moment: Moment
    topic: TopicDelta
    number: int
    before: PartitionImage
    after: PartitionImage


class PartitionEventFold(EventFold):
    """What both tables share: they differ in which changes they tell, and how."""

    RECORDS: ClassVar[Sequence[type[Message]]] = (*TOPIC_RECORDS, *BROKER_RECORDS)

    def __init__(self) -> None:
        super().__init__()
        self.topics = TopicReplay()
        self._pending: list[Pending] = []
        # Those of earlier batches that wait to hear why, and all behind them; told ones have their cells.
        self._waiting: list[tuple[Pending, Row | None]] = []
        self._has_news = False  # of a broker, in this batch

    def take(self, step: WalkStep) -> None:
        message = step.message
        if type(message) is PartitionChangeRecord:  # most of a log
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
        if before is not None and not step.from_snapshot and self.tells(before, after):
            self._pending.append(Pending._make((step.moment, topic, number, before, after)))

    def settle(self) -> None:
        if self._waiting and (self._has_news or self._waits_in_vain()):
            self._tell()
        for one in self._pending:
            cells = None if self._is_open(one) else self.row(one)
            if cells is None or self._waiting:
                self._waiting.append((one, cells))
            else:
                self._tell_one(one, cells)
        self._pending.clear()
        self._has_news = False

    def finish(self, last: Moment) -> None:
        super().finish(last)
        self._tell()

    def _waits_in_vain(self) -> bool:
        first = self._waiting[0][0].moment.timestamp_ms
        return any(one.moment.timestamp_ms - first > FENCE_MS for one in self._pending[:1])

    def _is_open(self, one: Pending) -> bool:
        """Whether brokers that lost the partition serve by what was read: a fence may follow in a later batch."""
        lost = remembered_without(one.before.isr, one.after.isr)
        if one.before.leader not in (one.after.leader, NO_LEADER):
            lost = (*lost, one.before.leader)
        return bool(lost) and not any(map(self.topics.why_gone, lost))

    def _tell(self) -> None:
        for one, cells in self._waiting:
            self._tell_one(one, self.row(one) if cells is None else cells)
        self._waiting.clear()

    def _tell_one(self, one: Pending, cells: Row) -> None:
        name, topic_id, _ = one.topic.image
        text = self.topics.id_text(topic_id)
        self.rows.append((*one.moment, text, name, one.number, *cells))

    def tells(self, before: PartitionImage, after: PartitionImage) -> bool:
        raise NotImplementedError

    def row(self, one: Pending) -> tuple[object, ...]:
        raise NotImplementedError


class IsrChangeFold(PartitionEventFold):
    def tells(self, before: PartitionImage, after: PartitionImage) -> bool:
        isr = after.isr
        return before.isr is not isr and bool(
            remembered_without(before.isr, isr) or remembered_without(isr, before.isr)
        )

    def row(self, one: Pending) -> tuple[object, ...]:
        before, after = one.before, one.after
        added, removed = (
            remembered_without(after.isr, before.isr),
            remembered_without(before.isr, after.isr),
        )
        return (
            known(after.leader),
            before.isr,
            after.isr,
            added,
            removed,
            after.replicas,
            self._cause(one, removed),
        )

    def _cause(self, one: Pending, removed: tuple[int, ...]) -> str:
        for broker_id in removed:
            if reason := self.topics.why_gone(broker_id):
                return reason
        kind = cause_of(one.before, one.after)
        if kind == "reassign":
            return kind
        if one.after.leader_recovery_state == RECOVERING or (kind == "leader_change" and removed):
            return "election"
        return "lag" if removed else "caught_up"


class LeaderChangeFold(PartitionEventFold):
    def tells(self, before: PartitionImage, after: PartitionImage) -> bool:
        return before.leader != after.leader

    def row(self, one: Pending) -> tuple[object, ...]:
        before, after = one.before, one.after
        preferred = after.leader == after.preferred_leader
        return (
            known(before.leader),
            known(after.leader),
            after.leader_epoch,
            after.replicas,
            after.isr,
            after.elr,
            preferred,
            after.leader_recovery_state == RECOVERING,
            self._cause(before, after, preferred),
        )

    def _cause(self, before: PartitionImage, after: PartitionImage, preferred: bool) -> str:
        if before.leader == NO_LEADER:
            return "returned"
        if reason := self.topics.why_gone(before.leader):
            return reason
        if before.replicas != after.replicas:
            return "reassign"
        return "preferred" if preferred else "other"


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
