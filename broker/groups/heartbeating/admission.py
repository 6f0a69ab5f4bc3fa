"""The common part of admission: the errors of members that are unknown or have another epoch, and static members.

Source: `GroupMetadataManager` of Kafka 4.4.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from trimaran.broker.groups.heartbeating.member import HeartbeatMember
from trimaran.broker.groups.heartbeating.operation import HeartbeatOperation
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import GroupEpoch

M = TypeVar("M", bound="StaticMember")
M_co = TypeVar("M_co", bound="StaticMember", covariant=True)


class StaticMember(HeartbeatMember, Protocol):
    """A member that may have an instance id."""

    @property
    def instance_id(self) -> str | None: ...


class WithStaticMembers(Protocol[M_co]):
    """A group with such members."""

    def static_member(self, instance_id: str | None) -> M_co | None:
        """Returns the member with an instance id."""


def unknown_member(group_id: str, member_id: str) -> KafkaError:
    return KafkaError(
        ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group_id}."
    )


def known_static(group: WithStaticMembers[M], member_id: str, instance_id: str) -> M:
    """Returns the static member. Raises KafkaError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID."""
    known = group.static_member(instance_id)
    if known is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    check_instance(known, member_id)
    return known


def check_instance(known: StaticMember, member_id: str) -> None:
    """Raises KafkaError FENCED_INSTANCE_ID if another incarnation now has the instance id."""
    if known.id != member_id:
        raise KafkaError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {known.instance_id} was fenced by member {known.id}.",
        )


def unreleased(known: StaticMember, member_id: str) -> KafkaError:
    """Returns the error for a joining member whose instance id another member still uses."""
    return KafkaError(
        ErrorCode.UNRELEASED_INSTANCE_ID,
        f"Static member {member_id} with instance id {known.instance_id} cannot join the group because the instance "
        f"id is owned by {known.id} member.",
    )


def write_replacement(
    operation: HeartbeatOperation[Any, M, Any, Any], known: M, member: M, target: object
) -> None:
    """Writes the new incarnation of a static member, with the `target` of the known one."""
    group = operation.group
    operation.write_without(known.id)
    operation.replaced = known.id
    operation.write_member(member)
    operation.write([operation.RECORDS.target(group.id, member.id, target)])
    operation.write_current(member)


def other_epoch(
    kind: str, member: HeartbeatMember, epoch: GroupEpoch, more: str = ""
) -> KafkaError:
    """Returns the error for a member with another epoch than the coordinator knows; `kind` is the kind of its group."""
    return KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The {kind} group member has a {'greater' if epoch > member.epoch else 'smaller'} member epoch ({epoch}) "
        f"than the one known by the group coordinator ({member.epoch}){more}. The member must abandon all its "
        "partitions and rejoin.",
    )
