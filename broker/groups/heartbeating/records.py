"""The common part of the records of kinds: every kind has the same types of records, each with its own class.

Source: Kafka's `GroupCoordinatorRecordHelpers`, `StreamsCoordinatorRecordHelpers`. All records are written at version
0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from trimaran.broker.groups.heartbeating.group import HeartbeatGroup
from trimaran.broker.groups.heartbeating.member import HeartbeatMember
from trimaran.broker.groups.records import GroupRecord
from trimaran.wire.identity import GroupEpoch
from trimaran.wire.schema import Message

M = TypeVar("M", bound=HeartbeatMember)
T = TypeVar("T")


class GroupKeyClass(Protocol):
    """The class of a key of a group's record."""

    def __call__(self, *, group_id: str) -> Message: ...


class MemberKeyClass(Protocol):
    """The class of a key of a member's record."""

    def __call__(self, *, group_id: str, member_id: str) -> Message: ...


class AssignmentEpochClass(Protocol):
    """The class of the value that ends a target."""

    def __call__(self, *, assignment_epoch: GroupEpoch, assignment_timestamp: int) -> Message: ...


@dataclass(frozen=True)
class HeartbeatRecords(Generic[M, T]):
    """The records of a kind with members `M` and targets `T`: the classes of their keys, the class of the assignment's
    epoch, and a function that makes the value of a member's target.
    """

    member_key: MemberKeyClass
    current_key: MemberKeyClass
    target_key: MemberKeyClass
    target_value: Callable[[T], Message]
    assignment_epoch_key: GroupKeyClass
    assignment_epoch_value: AssignmentEpochClass

    def member(self, group_id: str, member: M) -> GroupRecord:
        """Returns the record of a member's own fields."""
        key = self.member_key(group_id=group_id, member_id=member.id)
        return GroupRecord(key, member.metadata_value())

    def current(self, group_id: str, member: M) -> GroupRecord:
        """Returns the record of a member's epoch, and of its part of the assignment."""
        key = self.current_key(group_id=group_id, member_id=member.id)
        return GroupRecord(key, member.current_value())

    def target(self, group_id: str, member_id: str, target: T) -> GroupRecord:
        key = self.target_key(group_id=group_id, member_id=member_id)
        return GroupRecord(key, self.target_value(target))

    def assignment_epoch(self, group_id: str, epoch: GroupEpoch, now_ms: int) -> GroupRecord:
        """Returns the record that ends a target."""
        value = self.assignment_epoch_value(assignment_epoch=epoch, assignment_timestamp=now_ms)
        return GroupRecord(self.assignment_epoch_key(group_id=group_id), value)

    # -- tombstones, in the order that Kafka's replay requires

    def without_member(self, group_id: str, member_id: str) -> Iterator[GroupRecord]:
        """Yields the tombstones of a member."""
        for key in (self.current_key, self.target_key, self.member_key):
            yield GroupRecord(key(group_id=group_id, member_id=member_id), None)

    def without_assignments(self, group: HeartbeatGroup[Any, Any]) -> Iterator[GroupRecord]:
        """Yields the tombstones of all current and target assignments, which come first when a group is removed."""
        for member_id in group.members:
            yield GroupRecord(self.current_key(group_id=group.id, member_id=member_id), None)
        for member_id in {**group.target, **group.members}:
            yield GroupRecord(self.target_key(group_id=group.id, member_id=member_id), None)

    def without_assignment_epoch(self, group_id: str) -> GroupRecord:
        """Returns the tombstone of the assignment epoch, which follows those of the assignments."""
        return GroupRecord(self.assignment_epoch_key(group_id=group_id), None)

    def without_members(self, group: HeartbeatGroup[Any, Any]) -> Iterator[GroupRecord]:
        """Yields the tombstones of the members' own fields, which follow that of the assignment epoch."""
        for member_id in group.members:
            yield GroupRecord(self.member_key(group_id=group.id, member_id=member_id), None)
