"""Determines the member that sent a request: a new one, a known one at its epoch, or a static one that replaces
another.

Source: `getOrMaybeSubscribeDynamicConsumerGroupMember`, `-StaticConsumerGroupMember` and
`throwIfConsumerGroupMemberEpochIsInvalid` of Kafka 4.4's `GroupMetadataManager`.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from trimaran.broker import events
from trimaran.broker.groups.consumer.member import ConsumerMember, Owned
from trimaran.broker.groups.consumer.operation import ConsumerOperation
from trimaran.broker.groups.consumer.reconciliation import Reported
from trimaran.broker.groups.heartbeating.admission import (
    known_static,
    other_epoch,
    unknown_member,
    unreleased,
    write_replacement,
)
from trimaran.broker.groups.heartbeating.member import JOINING_EPOCH, LEAVING_STATIC_EPOCH
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
            raise unknown_member(group.id, member_id)
        if known is None:
            events.GROUP_MEMBER_JOINED.log(log, group=group.id, member=member_id)
            return ConsumerMember(member_id)
        member = known
    # A member that rejoins owns nothing, and receives its partitions again.
    if not joins and request.member_epoch != member.epoch:
        _check_epoch(member, request.member_epoch, reported)
    return member


def check_size(operation: ConsumerOperation, member_id: str, instance_id: str | None) -> None:
    """Raises KafkaError GROUP_MAX_SIZE_REACHED if the group is full, in members or in bytes, and the member is new."""
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
    operation.check_memory(member.held_bytes - (0 if is_new else before.held_bytes))


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
        return known  # the member retries its join
    both_new = not uses_classic_protocol and not known.uses_classic_protocol
    if both_new and known.epoch != LEAVING_STATIC_EPOCH:
        raise unreleased(known, member_id)
    return _replace_static(operation, known, member_id)


def _replace_static(
    operation: ConsumerOperation, known: ConsumerMember, member_id: str
) -> ConsumerMember:
    """Gives the new incarnation the partitions and the target of the previous one."""
    group = operation.group
    events.GROUP_STATIC_MEMBER_BACK.log(
        log, group=group.id, instance=known.instance_id, member=member_id
    )
    member = replace(known, id=member_id, epoch=JOINING_EPOCH, previous_epoch=JOINING_EPOCH)
    write_replacement(operation, known, member, group.target.get(known.id, {}))
    return member


def _check_epoch(member: ConsumerMember, epoch: GroupEpoch, reported: Reported) -> None:
    """Checks an epoch that is not the member's. A member that missed its new epoch may still use the previous one, if
    it owns no partition outside of its assignment.

    Raises:
        KafkaError: FENCED_MEMBER_EPOCH.
    """
    heard_less = epoch == member.previous_epoch and _owns_no_more(reported, member.assigned)
    if epoch > member.epoch or not heard_less:
        raise other_epoch("consumer", member, epoch)


def _owns_no_more(reported: Reported, assigned: Owned) -> bool:
    return reported is not None and all(
        partitions <= assigned.get(topic_id, {}).keys() for topic_id, partitions in reported.items()
    )
