"""The common part of a group, as given by its records: its epochs, its members, and the target of each member.

Source: Kafka's `ModernGroup` and the `replay` methods of `GroupMetadataManager`. `apply` is the only mutator: for
records just written, for loaded records, and for the draft that a decision is made on. The maps are persistent, so that
a draft costs nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import Generic, Protocol, Self, TypeVar, cast

from immutables import Map

from trimaran.broker.groups.heartbeating.member import HeartbeatMember
from trimaran.broker.groups.memory import PARTITION_BYTES
from trimaran.wire.identity import GroupEpoch
from trimaran.wire.schema import Message

M = TypeVar("M", bound=HeartbeatMember)
T = TypeVar("T")

# The assignment epoch after its tombstone.
NO_ASSIGNMENT_EPOCH = GroupEpoch(-1)
# The epoch of a new group, and of its first assignment, as in Kafka.
FIRST_EPOCH = GroupEpoch(1)


class AssignmentEpochValue(Protocol):
    """The value of the record that ends a target."""

    @property
    def assignment_epoch(self) -> GroupEpoch: ...

    @property
    def assignment_timestamp(self) -> int: ...


class HeartbeatGroup(ABC, Generic[M, T]):
    """A group with members `M`, each with a target `T`. `held_bytes` is the approximate size of the group in memory.

    The log has a record of the group's epoch if `has_epoch`, and a record of the assignment's epoch if
    `has_assignment`. If either is missing, the group is being created or removed.
    """

    def __init__(self, group_id: str, epoch: GroupEpoch, assignment_epoch: GroupEpoch) -> None:
        self.id = group_id
        self.epoch = epoch
        self.metadata_hash = 0
        self.assignment_epoch = assignment_epoch
        self.assignment_timestamp_ms = 0
        self.has_epoch = self.has_assignment = False
        self.members: Map[str, M] = Map()
        self.target: Map[str, T] = Map()
        self.held_bytes = 0

    def draft(self) -> Self:
        """Returns a copy to make a decision on. Does not use `copy.copy`, which takes four times as long: each
        heartbeat makes a copy.
        """
        made = object.__new__(self.__class__)
        made.__dict__.update(self.__dict__)
        return made

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def is_gone(self) -> bool:
        """Whether no record of the group is left."""
        return not (self.has_epoch or self.has_assignment or self.members or self.target)

    @property
    @abstractmethod
    def state(self) -> Enum:
        """The state of the group; the values are those of Kafka's protocol."""

    @abstractmethod
    def is_subscribed_to(self, topic: str) -> bool:
        """Returns whether a member subscribes to the topic."""

    # -- records

    @abstractmethod
    def apply(self, key: Message, value: Message | None) -> None:
        """Applies one record; never fails."""

    def _apply_assignment_epoch(self, value: Message | None) -> None:
        self.has_assignment = value is not None
        if value is None:
            self.assignment_epoch, self.assignment_timestamp_ms = NO_ASSIGNMENT_EPOCH, 0
        else:
            ended = cast(AssignmentEpochValue, value)
            self.assignment_epoch = ended.assignment_epoch
            self.assignment_timestamp_ms = ended.assignment_timestamp

    def _apply_target(self, member_id: str, target: T | None) -> None:
        before = self.target.get(member_id)
        if before is not None:
            self.held_bytes -= PARTITION_BYTES * self.target_size(before)
        if target is not None:
            self.target = self.target.set(member_id, target)
            self.held_bytes += PARTITION_BYTES * self.target_size(target)
        elif before is not None:
            self.target = self.target.delete(member_id)

    @abstractmethod
    def target_size(self, target: T) -> int:
        """Returns the number of partitions or tasks in a member's target."""

    def _put(self, member: M) -> None:
        """Adds a member, or replaces it."""
        old = self.members.get(member.id)
        self.held_bytes += member.held_bytes - (0 if old is None else old.held_bytes)
        self.members = self.members.set(member.id, member)
        self._changed(old, member)

    def _drop(self, member_id: str) -> None:
        """Removes a member, if there is one."""
        if (old := self.members.get(member_id)) is not None:
            self.held_bytes -= old.held_bytes
            self.members = self.members.delete(member_id)
            self._changed(old, None)

    @abstractmethod
    def _changed(self, old: M | None, new: M | None) -> None:
        """Updates what a kind derives from its members."""

    def __str__(self) -> str:
        members = ", ".join(map(str, self.members.values()))
        return (
            f"{self.id} {self.state.value} epoch {self.epoch} target {self.assignment_epoch} "
            f"[{members}]"
        )
