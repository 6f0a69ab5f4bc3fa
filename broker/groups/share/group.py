"""A share group, as given by its records: epochs, members, the target, and the progress of its share partitions.

Source: Kafka's `ShareGroup` (KIP-932).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from enum import Enum

from immutables import Map

from trimaran.broker.groups.heartbeating.group import FIRST_EPOCH, HeartbeatGroup
from trimaran.broker.groups.heartbeating.member import (
    LEAVING_EPOCH,
    Partitions,
    partitions_of,
)
from trimaran.broker.groups.share.member import ShareMember
from trimaran.broker.groups.share.state_partitions import NO_STATES, StatePartitions
from trimaran.wire.records.share_groups import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
)
from trimaran.wire.schema import Message


class ShareGroupState(Enum):
    """The states of a group; the values are those of Kafka's protocol."""

    EMPTY = "Empty"
    STABLE = "Stable"


class ShareGroup(HeartbeatGroup[ShareMember, Partitions]):
    """A share group. `bytes` is the size of all subscriptions. `states` is None if the log has no record of share
    partitions.
    """

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id, FIRST_EPOCH, FIRST_EPOCH)
        self.states: StatePartitions | None = None
        self._states_bytes = 0
        # The number of members that subscribe to a name.
        self.name_counts: Map[str, int] = Map()
        self.bytes = 0

    # -- queries

    @property
    def is_gone(self) -> bool:
        return super().is_gone and self.states is None

    @property
    def state(self) -> ShareGroupState:
        return ShareGroupState.EMPTY if self.is_empty else ShareGroupState.STABLE

    @property
    def known_states(self) -> StatePartitions:
        """The share partitions, none if the log has no record of them."""
        return NO_STATES if self.states is None else self.states

    @property
    def is_initializing(self) -> bool:
        """Whether partitions of a subscribed topic are initializing. Partitions of other topics may stay initializing,
        because heartbeats only initialize subscribed topics.
        """
        if self.states is None or not self.states.initializing:
            return False
        topics = self.states.initializing.values()
        return any(topic.name in self.name_counts for topic in topics)

    @property
    def is_homogeneous(self) -> bool:
        """Whether all members subscribe to the same topics."""
        return all(count == len(self.members) for count in self.name_counts.values())

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.name_counts

    # -- records

    def apply(self, key: Message, value: Message | None) -> None:
        if isinstance(key, ShareGroupMetadataKey):
            self._apply_epoch(value)
        elif isinstance(key, ShareGroupMemberMetadataKey):
            self._apply_member(key.member_id, value)
        elif isinstance(key, ShareGroupCurrentMemberAssignmentKey):
            self._apply_current(key.member_id, value)
        elif isinstance(key, ShareGroupTargetAssignmentMemberKey):
            self._apply_target(key.member_id, _target(value))
        elif isinstance(key, ShareGroupTargetAssignmentMetadataKey):
            self._apply_assignment_epoch(value)
        elif isinstance(key, ShareGroupStatePartitionMetadataKey):
            self._apply_states(value)

    def _apply_epoch(self, value: Message | None) -> None:
        self.has_epoch = value is not None
        if isinstance(value, ShareGroupMetadataValue):
            self.epoch, self.metadata_hash = value.epoch, value.metadata_hash

    def _apply_states(self, value: Message | None) -> None:
        self.held_bytes -= self._states_bytes
        self.states = None
        if isinstance(value, ShareGroupStatePartitionMetadataValue):
            self.states = StatePartitions.of(value)
        self._states_bytes = self.known_states.held_bytes
        self.held_bytes += self._states_bytes

    def _apply_member(self, member_id: str, value: Message | None) -> None:
        known = self.members.get(member_id) or ShareMember(member_id)
        if isinstance(value, ShareGroupMemberMetadataValue):
            self._put(known.with_metadata(value))
        else:
            self._drop(member_id)

    def _apply_current(self, member_id: str, value: Message | None) -> None:
        known = self.members.get(member_id) or ShareMember(member_id)
        if isinstance(value, ShareGroupCurrentMemberAssignmentValue):
            self._put(known.with_current(value))
        elif member_id in self.members:
            left = replace(known, epoch=LEAVING_EPOCH, previous_epoch=LEAVING_EPOCH, assigned={})
            self._put(left)

    def target_size(self, target: Partitions) -> int:
        return sum(map(len, target.values()))

    # -- members

    def _changed(self, old: ShareMember | None, new: ShareMember | None) -> None:
        self.bytes += (0 if new is None else new.bytes) - (0 if old is None else old.bytes)
        before = () if old is None else old.subscribed_names
        after = () if new is None else new.subscribed_names
        if before != after:
            self._count(before, -1)
            self._count(after, 1)

    def _count(self, names: Iterable[str], sign: int) -> None:
        counts = self.name_counts
        for name in names:
            number = counts.get(name, 0) + sign
            counts = counts.set(name, number) if number else counts.delete(name)
        self.name_counts = counts


def _target(value: Message | None) -> Partitions | None:
    if isinstance(value, ShareGroupTargetAssignmentMemberValue):
        return partitions_of(value.topic_partitions)
    return None
