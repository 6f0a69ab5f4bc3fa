"""The columns of `partition_history`, and its rows: intervals of partitions, and the changes that began them."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from trimaran.quorum.metadata.image import NO_LEADER, PartitionImage
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
from trimaran.spark.kafka_metadata.log_walk.walk import Moment, Ongoing, seconds_between
from trimaran.spark.kafka_metadata.topic_histories.partition_states import PartitionState
from trimaran.spark.kafka_metadata.topic_histories.partitions import (
    RECOVERING,
    cause_of,
    known,
    without,
)
from trimaran.wire.identity import LeaderEpoch, PartitionEpoch


class PartitionTransition(NamedTuple):
    """A change of a partition, without its time and place: many rows share the same change.

    `before` is None in the first interval of a partition. `cause` is empty if it follows from the two states.
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
        """Returns the previous ISR; in the first interval its own, since no broker joined or left."""
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

    The length of an interval that is `ONGOING` counts to `measured_to`.
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
    Column("to_offset", LONG, field("end.offset"), "the record that ended it; null: it goes on"),
    Column("from_ts", TIMESTAMP, field("since.timestamp_ms"), "when it began", unit="UTC"),
    Column("to_ts", TIMESTAMP, field("end.timestamp_ms"), "when it ended; null: it goes on",
           unit="UTC"),
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
