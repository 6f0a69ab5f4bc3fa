"""Determines the member that sent a request: a new one, a known one at its epoch, or a static one that replaces
another.

Source: `getOrMaybeCreateDynamicStreamsGroupMember`, `-StaticStreamsGroupMember`,
`throwIfStreamsGroupMemberEpochIsInvalid` and `throwIfStreamsGroupIsFull` of Kafka's `GroupMetadataManager`.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from trimaran.broker import events
from trimaran.broker.groups.heartbeating.admission import (
    known_static,
    other_epoch,
    unknown_member,
    unreleased,
    write_replacement,
)
from trimaran.broker.groups.heartbeating.member import JOINING_EPOCH, LEAVING_STATIC_EPOCH
from trimaran.broker.groups.streams.group import StreamsGroup
from trimaran.broker.groups.streams.member import StreamsMember
from trimaran.broker.groups.streams.operation import StreamsOperation
from trimaran.broker.groups.streams.reconciliation import Reported
from trimaran.broker.groups.streams.tasks import MemberTasks, is_within
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import GroupEpoch
from trimaran.wire.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest

log = logging.getLogger(__name__)


def admit(
    operation: StreamsOperation, request: StreamsGroupHeartbeatRequest, reported: Reported
) -> StreamsMember:
    """Returns the member.

    Raises:
        KafkaError: GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, UNRELEASED_INSTANCE_ID,
            FENCED_INSTANCE_ID.
    """
    group, joins = operation.group, request.member_epoch == JOINING_EPOCH
    if joins:
        _check_size(operation, request)
    if request.instance_id is not None:
        if joins:
            return _admit_static(operation, request.member_id, request.instance_id)
        member = known_static(group, request.member_id, request.instance_id)
    elif joins:
        events.GROUP_MEMBER_JOINED.log(log, group=group.id, member=request.member_id)
        return group.members.get(request.member_id) or StreamsMember(request.member_id)
    else:
        member = known_member(group, request.member_id)
    if request.member_epoch != member.epoch:
        _check_epoch(member, request.member_epoch, reported)
    return member


def known_member(group: StreamsGroup, member_id: str) -> StreamsMember:
    """Returns the member. Raises KafkaError UNKNOWN_MEMBER_ID."""
    member = group.members.get(member_id)
    if member is None:
        raise unknown_member(group.id, member_id)
    return member


def _check_size(operation: StreamsOperation, request: StreamsGroupHeartbeatRequest) -> None:
    group, most = operation.group, operation.settings.members_max
    is_known = (
        group.static_member(request.instance_id) is not None or request.member_id in group.members
    )
    if len(group.members) >= most and not is_known:
        raise KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The streams group has reached its maximum capacity of {most} members.",
        )


def _admit_static(operation: StreamsOperation, member_id: str, instance_id: str) -> StreamsMember:
    group = operation.group
    known = group.static_member(instance_id)
    if known is None:
        events.GROUP_STATIC_MEMBER_JOINED.log(
            log, group=group.id, instance=instance_id, member=member_id
        )
        return group.members.get(member_id) or StreamsMember(member_id)
    if known.epoch != LEAVING_STATIC_EPOCH:
        raise unreleased(known, member_id)
    return _replace_static(operation, known, member_id)


def _replace_static(
    operation: StreamsOperation, known: StreamsMember, member_id: str
) -> StreamsMember:
    """Gives the new incarnation the tasks and the target of the previous one."""
    group = operation.group
    events.GROUP_STATIC_MEMBER_BACK.log(
        log, group=group.id, instance=known.instance_id, member=member_id
    )
    member = replace(known, id=member_id, epoch=JOINING_EPOCH, previous_epoch=JOINING_EPOCH)
    write_replacement(operation, known, member, group.target.get(known.id, MemberTasks()))
    return member


def _check_epoch(member: StreamsMember, epoch: GroupEpoch, reported: Reported) -> None:
    """Checks an epoch that is not the member's. A member that missed its new epoch may still use the previous one, if
    it has no task outside of its assignment.

    Raises:
        KafkaError: FENCED_MEMBER_EPOCH.
    """
    heard_less = epoch == member.previous_epoch and _has_no_more(reported, member)
    if epoch > member.epoch or not heard_less:
        raise other_epoch("streams", member, epoch)


def _has_no_more(reported: Reported, member: StreamsMember) -> bool:
    return reported is not None and all(map(is_within, reported, member.assigned))
