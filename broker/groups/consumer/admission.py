"""Determines the member that sent a request: a new one, a known one at its epoch, or a static one that replaces
another.

Source: `getOrMaybeSubscribeDynamicConsumerGroupMember`, `-StaticConsumerGroupMember` and
`throwIfConsumerGroupMemberEpochIsInvalid` of Kafka 4.4's `GroupMetadataManager`.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from trimaran.broker import events
from trimaran.broker.groups.consumer.group import ConsumerGroup
from trimaran.broker.groups.consumer.member import (
    JOINING_EPOCH,
    LEAVING_STATIC_EPOCH,
    ConsumerMember,
    Owned,
)
from trimaran.broker.groups.consumer.operation import ConsumerOperation
from trimaran.broker.groups.consumer.reconciliation import Reported
from trimaran.broker.groups.consumer.records import member_tombstones, target_record
from trimaran.broker.groups.limits import GROUP_BYTES_MAX
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import GroupEpoch
from trimaran.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

log = logging.getLogger(__name__)


def admit(
    operation: ConsumerOperation,
    request: ConsumerGroupHeartbeatRequest,
    member_id: str,
    reported: Reported,
) -> ConsumerMember:
    group, joins = operation.group, request.member_epoch == JOINING_EPOCH
    check_size(operation, member_id, request.instance_id)
    if request.instance_id is not None:
        if joins:
            return admit_static(
                operation, member_id, request.instance_id, uses_classic_protocol=False
            )
        member = known_static(group, member_id, request.instance_id)
    else:
        known = group.members.get(member_id)
        if known is None and not joins:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"Member {member_id} is not a member of group {group.id}.",
            )
        if known is None:
            events.GROUP_MEMBER_JOINED.log(log, group=group.id, member=member_id)
            return ConsumerMember(member_id)
        member = known
    # A member that rejoins owns nothing, and receives its partitions again.
    if not joins:
        _check_epoch(member, request.member_epoch, reported)
    return member


def check_size(operation: ConsumerOperation, member_id: str, instance_id: str | None) -> None:
    """Raises KafkaError GROUP_MAX_SIZE_REACHED if the group is full, in members or in bytes, and this would be one
    more.
    """
    group = operation.group
    is_full = len(group.members) >= operation.settings.members_max or group.bytes > GROUP_BYTES_MAX
    is_known = member_id in group.members or group.static_member(instance_id) is not None
    if is_full and not is_known:
        raise KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The consumer group has reached its maximum capacity of {operation.settings.members_max} members, "
            f"or {GROUP_BYTES_MAX} bytes of subscriptions.",
        )


def check_memory(
    operation: ConsumerOperation, before: ConsumerMember, member: ConsumerMember
) -> None:
    """Raises KafkaError GROUP_MAX_SIZE_REACHED if the broker's limits do not admit a new member or a larger
    subscription.
    """
    is_new = before.id not in operation.group.members
    if not operation.fits(member.held_bytes - (0 if is_new else before.held_bytes)):
        raise KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            "The groups of this broker, or those of this principal, take as much memory as they may: try again when "
            "members have left.",
        )


def admit_static(
    operation: ConsumerOperation,
    member_id: str,
    instance_id: str,
    *,
    uses_classic_protocol: bool,
) -> ConsumerMember:
    """Returns the member for a joining static member: a new one, a known one, or one that replaces the previous member
    with its instance id.

    Raises:
        KafkaError: UNRELEASED_INSTANCE_ID if another member still uses the instance id.
    """
    group = operation.group
    known = group.static_member(instance_id)
    if known is None:
        events.GROUP_STATIC_MEMBER_JOINED.log(
            log, group=group.id, instance=instance_id, member=member_id
        )
        return ConsumerMember(member_id)
    if known.id == member_id and known.epoch != LEAVING_STATIC_EPOCH:
        return known  # a retry of its join
    both_new = not uses_classic_protocol and not known.uses_classic_protocol
    if both_new and known.epoch != LEAVING_STATIC_EPOCH:
        raise KafkaError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance "
            f"id is owned by {known.id} member.",
        )
    return _replace_static(operation, known, member_id)


def known_static(group: ConsumerGroup, member_id: str, instance_id: str) -> ConsumerMember:
    """Returns the static member. Raises KafkaError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID."""
    known = group.static_member(instance_id)
    if known is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    check_instance(known, member_id)
    return known


def check_instance(known: ConsumerMember, member_id: str) -> None:
    """Raises KafkaError FENCED_INSTANCE_ID if another incarnation now has the instance id."""
    if known.id != member_id:
        raise KafkaError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {known.instance_id} was fenced by member {known.id}.",
        )


def _replace_static(
    operation: ConsumerOperation, known: ConsumerMember, member_id: str
) -> ConsumerMember:
    """Gives the new incarnation the partitions and the target of the previous one."""
    group = operation.group
    events.GROUP_STATIC_MEMBER_BACK.log(
        log, group=group.id, instance=known.instance_id, member=member_id
    )
    member = replace(known, id=member_id, epoch=JOINING_EPOCH, previous_epoch=JOINING_EPOCH)
    target = group.target.get(known.id, {})
    operation.write(member_tombstones(group.id, known.id))
    operation.replaced = known.id
    operation.write_member(member)
    operation.write([target_record(group.id, member_id, target)])
    operation.write_current(member)
    return member


def _check_epoch(member: ConsumerMember, epoch: GroupEpoch, reported: Reported) -> None:
    """Checks the member epoch. A member that missed its new epoch may still use the previous one, if it owns no
    partition outside of its assignment.

    Raises:
        KafkaError: FENCED_MEMBER_EPOCH.
    """
    if epoch == member.epoch:
        return
    heard_less = epoch == member.previous_epoch and _owns_no_more(reported, member.assigned)
    if epoch > member.epoch or not heard_less:
        raise KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The consumer group member has a {'greater' if epoch > member.epoch else 'smaller'} member epoch "
            f"({epoch}) than the one known by the group coordinator ({member.epoch}). The member must abandon all "
            "its partitions and rejoin.",
        )


def _owns_no_more(reported: Reported, assigned: Owned) -> bool:
    return reported is not None and all(
        partitions <= assigned.get(topic_id, {}).keys() for topic_id, partitions in reported.items()
    )
