"""Removes members that leave or time out.

Source: `GroupMetadataManager.consumerGroupFenceMember`, `-FenceMembers` of Kafka 4.4.
"""

from __future__ import annotations

from collections.abc import Sequence

from trimaran.broker.groups.consumer import assigning, migration, regexes
from trimaran.broker.groups.consumer.member import ConsumerMember, MemberState
from trimaran.broker.groups.consumer.operation import ConsumerOperation, ConsumerTimer
from trimaran.broker.groups.heartbeating.operation import HeartbeatTimer
from trimaran.broker.groups.outputs import Timer


def remove(operation: ConsumerOperation, members: Sequence[ConsumerMember]) -> None:
    """Removes members; converts the group to a classic one if only members of that protocol are left and the policy
    allows it.
    """
    for member in members:
        operation.cancel_timers(member.id)
        operation.write_without(member.id)
    if migration.downgrade_if_classic(operation):
        return
    regexes.forget_unused(operation)
    operation.bump_epoch()
    assigning.assign_if_due(operation)


TIMED_OUT: dict[str, str] = {
    Timer.SESSION: "its session expired",
    HeartbeatTimer.REVOCATION: "it did not give up its partitions in time",
    ConsumerTimer.CLASSIC_JOIN: "it did not join again in time",
    ConsumerTimer.CLASSIC_SYNC: "it did not sync in time",
}


def timed_out(operation: ConsumerOperation, member_id: str, kind: str) -> None:
    """Removes a member after a timeout."""
    member = operation.group.members.get(member_id)
    if member is None or (
        kind is HeartbeatTimer.REVOCATION and member.state is not MemberState.UNREVOKED_PARTITIONS
    ):
        return
    operation.note_fenced(member_id, TIMED_OUT[kind])
    remove(operation, [member])
