"""The share groups in `__consumer_offsets`, replayed without the product's code, and their rules (Q10)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.simulation.coordinators.batches import Batch
from trimaran.broker.groups.records import GroupRecordSerde
from trimaran.broker.groups.share.kind import KIND
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import SharePartitionKey
from trimaran.wire.records.share_groups import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupMemberMetadataKey,
    ShareGroupMetadataKey,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupTargetAssignmentMemberKey,
)

E = ErrorCode
Require = Callable[..., None]
Partition = tuple[bytes, int]
FORGOTTEN = frozenset({E.UNKNOWN_MEMBER_ID, E.GROUP_ID_NOT_FOUND})


@dataclass(slots=True)
class Group:
    epoch: int = -1
    members: set[str] = field(default_factory=set)
    epochs: dict[str, int] = field(default_factory=dict)
    assigned: dict[str, frozenset[Partition]] = field(default_factory=dict)
    target: dict[str, frozenset[Partition]] = field(default_factory=dict)
    initialized: frozenset[Partition] = frozenset()
    ever_initialized: set[Partition] = field(default_factory=set)


class Groups:
    """The share groups; `has_state` returns whether a share partition ever had a committed state."""

    def __init__(self, require: Require, has_state: Callable[[SharePartitionKey], bool]) -> None:
        self._require = require
        self._has_state = has_state
        self._serde = GroupRecordSerde(KIND.records)
        self.groups: defaultdict[str, Group] = defaultdict(Group)
        self._removed: set[tuple[str, str]] = set()
        self._told: set[tuple[str, str]] = set()

    # -- records

    def appended(self, batch: Batch) -> None:
        """Notes members that a coordinator removes. The coordinator forgets them before the removal is committed."""
        for _, key, value in batch.records:
            record = self._serde.decode(key, value) if value is None else None
            if record is not None and isinstance(record.key, ShareGroupMemberMetadataKey):
                self._removed.add((record.key.group_id, record.key.member_id))

    def committed(self, batch: Batch) -> None:
        for _, key, value in batch.records:
            record = self._serde.decode(key, value)
            if record is not None:
                self._apply(record.key, record.value)

    def _apply(self, key: Any, value: Any) -> None:
        if isinstance(key, ShareGroupMetadataKey):
            self._epoch(key.group_id, value)
        elif isinstance(key, ShareGroupMemberMetadataKey):
            group = self.groups[key.group_id]
            if value is None:
                group.members.discard(key.member_id)
                group.epochs.pop(key.member_id, None)
            else:
                group.members.add(key.member_id)
        elif isinstance(key, ShareGroupCurrentMemberAssignmentKey):
            self._current(self.groups[key.group_id], key, value)
        elif isinstance(key, ShareGroupTargetAssignmentMemberKey):
            targets = self.groups[key.group_id].target
            targets.pop(key.member_id, None)
            if value is not None:
                targets[key.member_id] = _partitions(value.topic_partitions)
        elif isinstance(key, ShareGroupStatePartitionMetadataKey):
            self._states(key.group_id, value)

    def _epoch(self, group_id: str, value: Any) -> None:
        if value is None:
            self.groups.pop(group_id, None)
            return
        group = self.groups[group_id]
        self._require(
            value.epoch > group.epoch,
            *("Q10", group_id, "goes from epoch", group.epoch, "to", value.epoch),
        )
        group.epoch = value.epoch

    def _current(self, group: Group, key: Any, value: Any) -> None:
        member = key.member_id
        if value is None:
            group.assigned.pop(member, None)
            return
        before = group.epochs.get(member, -1)
        self._require(
            before <= value.member_epoch <= group.epoch,
            *("Q10", key.group_id, member, "goes from epoch", before, "to", value.member_epoch),
            *("in", group.epoch),
        )
        group.epochs[member] = value.member_epoch
        group.assigned[member] = _partitions(value.assigned_partitions)
        self._require(
            group.assigned[member] <= group.ever_initialized,
            *("Q10", key.group_id, member, "gets partitions that are not initialized"),
        )

    def _states(self, group_id: str, value: Any) -> None:
        group = self.groups[group_id]
        if value is None:
            group.initialized = frozenset()
            return
        group.initialized = _partitions(value.initialized_topics)
        group.ever_initialized |= group.initialized
        for topic_id, index in group.initialized:
            key = SharePartitionKey(group_id, topic_id, index)
            self._require(
                self._has_state(key), "Q10", key, "counts as initialized and has no state"
            )

    # -- responses

    def beaten(self, request: Any, response: Any) -> None:
        """Checks the response to a heartbeat: it contains the committed state, and no member is forgotten."""
        who = (request.group_id, request.member_id)
        code = ErrorCode.of(response.error_code)
        if code in FORGOTTEN and who in self._told and request.member_epoch > 0:
            self._require(who in self._removed, "Q10", who, "is told", code.name)
        if code is not E.NONE or response.member_epoch <= 0:
            return
        self._told.add(who)
        if who in self._removed:
            return
        group = self.groups[request.group_id]
        known = group.epochs.get(request.member_id, -1)
        self._require(
            known >= response.member_epoch,
            *("Q10", who, "is told epoch", response.member_epoch, "and has", known),
        )
        if response.assignment is not None and known == response.member_epoch:
            told = _partitions(response.assignment.topic_partitions)
            mine = group.assigned.get(request.member_id, frozenset())
            self._require(told == mine, "Q10", who, "is told", told, "and has", mine)

    # -- the end

    def unsettled(self, group_id: str, partitions: frozenset[Partition]) -> list[str]:
        """Returns the partitions that no member of a group has."""
        group = self.groups[group_id]
        held: set[Partition] = set()
        for member in group.members:
            held |= group.assigned.get(member, frozenset())
        return [f"Q10 {group_id} reads no {index}" for _, index in sorted(partitions - held)]


def _partitions(topics: Any) -> frozenset[Partition]:
    return frozenset((topic.topic_id, index) for topic in topics for index in topic.partitions)
