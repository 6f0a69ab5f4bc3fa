"""The columns of `partition_history`, made of many rows at a time.

What most of them tell is that of few distinct changes: it is found out once for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trimaran.quorum.metadata.image import NO_LEADER, PartitionImage
from trimaran.spark.data_source.columns import (
    BOOL,
    INT,
    INTS,
    LONG,
    STRING,
    TIMESTAMP,
    Codes,
    Column,
    Repeated,
)
from trimaran.spark.kafka_metadata.log_walk.fold import Row
from trimaran.spark.kafka_metadata.topic_histories.partition_states import PartitionState
from trimaran.spark.kafka_metadata.topic_histories.partitions import (
    RECOVERING,
    cause_of,
    known,
    without,
)


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

    def __init__(
        self, each: Iterable[tuple[PartitionState, int, str, PartitionState | None]]
    ) -> None:
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
