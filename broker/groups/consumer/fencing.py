"""Removes members that leave or time out.

Source: `GroupMetadataManager.consumerGroupFenceMember`, `-FenceMembers` of Kafka 4.4.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from trimaran.broker import events
from trimaran.broker.groups.consumer import assigning, migration, regexes
from trimaran.broker.groups.consumer.member import ConsumerMember, MemberState
from trimaran.broker.groups.consumer.operation import ConsumerOperation, ConsumerTimer
from trimaran.broker.groups.consumer.records import member_tombstones
from trimaran.broker.groups.outputs import Timer

log = logging.getLogger(__name__)


def remove(operation: ConsumerOperation, members: Sequence[ConsumerMember]) -> None:
    """Removes members; converts the group to a classic one if only members of that protocol are left and the policy
    allows it.
    """
    group = operation.group
    for member in members:
        operation.cancel_timers(member.id)
        operation.write(member_tombstones(group.id, member.id))
    if migration.downgrade_if_classic(operation):
        return
    regexes.forget_unused(operation)
    operation.bump_epoch()
    assigning.assign_if_due(operation)


TIMED_OUT: dict[str, str] = {
    Timer.SESSION: "its session expired",
    ConsumerTimer.REVOCATION: "it did not give up its partitions in time",
    ConsumerTimer.CLASSIC_JOIN: "it did not join again in time",
    ConsumerTimer.CLASSIC_SYNC: "it did not sync in time",
}


def timed_out(operation: ConsumerOperation, member_id: str, kind: str) -> None:
    """Removes a member after a timeout."""
    member = operation.group.members.get(member_id)
    if member is None:
        return
    if kind is ConsumerTimer.REVOCATION and member.state is not MemberState.UNREVOKED_PARTITIONS:
        return
    events.GROUP_MEMBER_FENCED.log(
        log, group=operation.group.id, member=member_id, reason=TIMED_OUT[kind]
    )
    remove(operation, [member])
