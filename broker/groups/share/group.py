"""A share group, as given by its records: epochs, members, the target, and the progress of its share partitions.

Source: Kafka's `ShareGroup`, `ModernGroup` and the `replay` methods of `GroupMetadataManager` (KIP-932). `apply` is the
only mutator: for records just written, for loaded records, and for the draft that a decision is made on. The maps are
persistent, so that a draft costs nothing.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum

from immutables import Map

from trimaran.broker.groups.share.member import (
    LEAVING_EPOCH,
    Partitions,
    ShareMember,
    partitions_bytes,
    partitions_of,
)
from trimaran.broker.groups.share.state_partitions import NO_STATES, StatePartitions
from trimaran.wire.identity import GroupEpoch
from trimaran.wire.records.share_groups import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupKey,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
    ShareGroupValue,
)

# The epoch of a new group and of its assignment, before its first record.
FIRST_EPOCH = GroupEpoch(1)
# The assignment epoch after its tombstone.
NO_ASSIGNMENT_EPOCH = GroupEpoch(-1)


class ShareGroupState(Enum):
    """The states of a group; the values are those of Kafka's protocol."""

    EMPTY = "Empty"
    STABLE = "Stable"


class ShareGroup:
    """A share group. `bytes` is the size of all subscriptions, and `held_bytes` the approximate size of the group in
    memory. `states` is None if the log has no record of share partitions.
    """

    def __init__(self, group_id: str) -> None:
        self.id = group_id
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.assignment_epoch = FIRST_EPOCH
        self.assignment_timestamp_ms = 0
        # Whether the log has a record of the group's epoch, and of its assignment's.
        self.has_epoch = self.has_assignment = False
        self.members: Map[str, ShareMember] = Map()
        self.target: Map[str, Partitions] = Map()
        self.states: StatePartitions | None = None
        # The number of members that subscribe to a name.
        self.name_counts: Map[str, int] = Map()
        self.bytes = self.held_bytes = 0

    def draft(self) -> ShareGroup:
        """Returns a copy to make a decision on."""
        made = object.__new__(ShareGroup)
        made.__dict__.update(self.__dict__)
        return made

    # -- queries

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def is_gone(self) -> bool:
        """Whether no record of the group is left."""
        return not (
            self.has_epoch
            or self.has_assignment
            or self.members
            or self.target
            or self.states is not None
        )

    @property
    def state(self) -> ShareGroupState:
        return ShareGroupState.EMPTY if self.is_empty else ShareGroupState.STABLE

    @property
    def known_states(self) -> StatePartitions:
        """The share partitions, none if the log has no record of them."""
        return NO_STATES if self.states is None else self.states

    @property
    def is_homogeneous(self) -> bool:
        """Whether all members subscribe to the same topics."""
        return all(count == len(self.members) for count in self.name_counts.values())

    # -- records

    def apply(self, key: ShareGroupKey, value: ShareGroupValue | None) -> None:
        """Applies one record; never fails."""
        if isinstance(key, ShareGroupMetadataKey):
            self._apply_epoch(value)
        elif isinstance(key, ShareGroupMemberMetadataKey):
            self._apply_member(key.member_id, value)
        elif isinstance(key, ShareGroupCurrentMemberAssignmentKey):
            self._apply_current(key.member_id, value)
        elif isinstance(key, ShareGroupTargetAssignmentMemberKey):
            self._apply_target(key.member_id, value)
        elif isinstance(key, ShareGroupTargetAssignmentMetadataKey):
            self._apply_assignment_epoch(value)
        elif isinstance(key, ShareGroupStatePartitionMetadataKey):
            self._apply_states(value)

    def _apply_epoch(self, value: ShareGroupValue | None) -> None:
        self.has_epoch = isinstance(value, ShareGroupMetadataValue)
        if isinstance(value, ShareGroupMetadataValue):
            self.epoch, self.metadata_hash = value.epoch, value.metadata_hash

    def _apply_assignment_epoch(self, value: ShareGroupValue | None) -> None:
        self.has_assignment = isinstance(value, ShareGroupTargetAssignmentMetadataValue)
        if isinstance(value, ShareGroupTargetAssignmentMetadataValue):
            self.assignment_epoch = value.assignment_epoch
            self.assignment_timestamp_ms = value.assignment_timestamp
        else:
            self.assignment_epoch, self.assignment_timestamp_ms = NO_ASSIGNMENT_EPOCH, 0

    def _apply_target(self, member_id: str, value: ShareGroupValue | None) -> None:
        self.held_bytes -= partitions_bytes(self.target.get(member_id, {}))
        if isinstance(value, ShareGroupTargetAssignmentMemberValue):
            self.target = self.target.set(member_id, partitions_of(value.topic_partitions))
        elif member_id in self.target:
            self.target = self.target.delete(member_id)
        self.held_bytes += partitions_bytes(self.target.get(member_id, {}))

    def _apply_states(self, value: ShareGroupValue | None) -> None:
        self.held_bytes -= self.known_states.held_bytes
        self.states = None
        if isinstance(value, ShareGroupStatePartitionMetadataValue):
            self.states = StatePartitions.of(value)
        self.held_bytes += self.known_states.held_bytes

    def _apply_member(self, member_id: str, value: ShareGroupValue | None) -> None:
        old = self.members.get(member_id)
        if isinstance(value, ShareGroupMemberMetadataValue):
            self._replace(old, (old or ShareMember(member_id)).with_metadata(value))
        elif old is not None:
            self._replace(old, None)

    def _apply_current(self, member_id: str, value: ShareGroupValue | None) -> None:
        old = self.members.get(member_id)
        if isinstance(value, ShareGroupCurrentMemberAssignmentValue):
            self._replace(old, (old or ShareMember(member_id)).with_current(value))
        elif old is not None:
            leaving = replace(old, epoch=LEAVING_EPOCH, previous_epoch=LEAVING_EPOCH, assigned={})
            self._replace(old, leaving)

    # -- members

    def _replace(self, old: ShareMember | None, new: ShareMember | None) -> None:
        if old is not None:
            self._count(old, -1)
        if new is None:
            assert old is not None
            self.members = self.members.delete(old.id)
        else:
            self.members = self.members.set(new.id, new)
            self._count(new, 1)

    def _count(self, member: ShareMember, sign: int) -> None:
        for name in member.subscribed_names:
            number = self.name_counts.get(name, 0) + sign
            counts = self.name_counts
            self.name_counts = counts.set(name, number) if number else counts.delete(name)
        self.bytes += sign * member.bytes
        self.held_bytes += sign * member.held_bytes

    def __str__(self) -> str:
        members = ", ".join(map(str, self.members.values()))
        return (
            f"{self.id} {self.state.value} epoch {self.epoch} target {self.assignment_epoch} "
            f"[{members}]"
        )
