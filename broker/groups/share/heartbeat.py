"""ShareGroupHeartbeat: a member joins, stays or leaves, and gets its partitions.

Source: `GroupMetadataManager.shareGroupHeartbeat`, `-Leave` of Kafka 4.4 (KIP-932). Intentional differences: while a
member waits for partitions, it gets a shorter interval than the configured one (`next_heartbeat_ms`); an assignment is
repeated for a member with its previous epoch, and if it has changed without a new epoch.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from trimaran.broker import events
from trimaran.broker.groups.heartbeating.admission import other_epoch, unknown_member
from trimaran.broker.groups.heartbeating.member import JOINING_EPOCH, LEAVING_EPOCH, Partitions
from trimaran.broker.groups.heartbeating.settings import (
    SUBSCRIPTION_BYTES_MAX,
    reconciling_interval_ms,
)
from trimaran.broker.groups.limits import GROUP_BYTES_MAX
from trimaran.broker.groups.share import assigning, initializing
from trimaran.broker.groups.share.member import STABLE, ShareMember
from trimaran.broker.groups.share.operation import ShareOperation
from trimaran.broker.groups.share.settings import MEMBER_ID_CHARACTERS_MAX
from trimaran.broker.groups.topics import metadata_hash
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import GroupEpoch
from trimaran.wire.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

log = logging.getLogger(__name__)


# -- checks of a request that do not depend on the group


def check_member_id(member_id: str) -> None:
    """Raises KafkaError INVALID_REQUEST unless a member may have this id."""
    if not 0 < len(member_id) <= MEMBER_ID_CHARACTERS_MAX:
        raise _invalid("Invalid member id in the request.")


def check_request(request: ShareGroupHeartbeatRequest) -> None:
    """Raises KafkaError INVALID_REQUEST for an invalid request."""
    if not request.member_id.strip():
        raise _invalid("MemberId can't be empty.")
    if not request.group_id.strip():
        raise _invalid("GroupId can't be empty.")
    if request.rack_id is not None and not request.rack_id.strip():
        raise _invalid("RackId can't be empty.")
    if request.member_epoch == JOINING_EPOCH and not request.subscribed_topic_names:
        raise _invalid("SubscribedTopicNames must be set in first request.")
    if request.member_epoch < LEAVING_EPOCH:
        raise _invalid("MemberEpoch is invalid.")
    if sum(map(len, request.subscribed_topic_names or ())) > SUBSCRIPTION_BYTES_MAX:
        raise _invalid("The subscription is too large.")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


# -- joining and staying


def heartbeat(
    operation: ShareOperation, request: ShareGroupHeartbeatRequest, client: tuple[str, str]
) -> ShareGroupHeartbeatResponse:
    """Decides on records and returns the response; `client` is the member's client id and host.

    Raises:
        KafkaError: GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH.
    """
    member = _admit(operation, request)
    updated = _updated(member, request, client)
    changed = _subscribe(operation, member, updated)
    bumped = _refresh_epoch(operation, changed)
    assigning.assign_if_due(operation)
    moved = _reconcile(operation, updated, bumped)
    initializing.initialize_new(operation)
    operation.expect_heartbeat(moved)
    response = ShareGroupHeartbeatResponse(
        member_id=moved.id,
        member_epoch=moved.epoch,
        heartbeat_interval_ms=next_heartbeat_ms(operation),
    )
    has_changed = moved.assigned != member.assigned
    may_lack = False
    if has_changed or operation.work.unconfirmed:
        is_changed = has_changed and moved.epoch == member.epoch
        may_lack = operation.may_lack_assignment(moved, is_confirmed=False, is_changed=is_changed)
    if has_changed or may_lack or _wants_assignment(member, request):
        response.assignment = _assignment_of(moved.assigned)
    return response


def _wants_assignment(member: ShareMember, request: ShareGroupHeartbeatRequest) -> bool:
    """Whether the request has all fields, or the member has not received the response with its epoch."""
    is_full = request.member_epoch == JOINING_EPOCH or request.subscribed_topic_names is not None
    return is_full or request.member_epoch != member.epoch


def _admit(operation: ShareOperation, request: ShareGroupHeartbeatRequest) -> ShareMember:
    """Returns the member, or a new one that joins."""
    group, member_id, epoch = operation.group, request.member_id, request.member_epoch
    known = group.members.get(member_id)
    is_full = len(group.members) >= operation.settings.members_max or group.bytes > GROUP_BYTES_MAX
    if known is None and is_full:
        raise KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The share group has reached its maximum capacity of {operation.settings.members_max} members, "
            f"or {GROUP_BYTES_MAX} bytes of subscriptions.",
        )
    if known is None:
        if epoch != JOINING_EPOCH:
            raise unknown_member(group.id, member_id)
        events.SHARE_GROUP_MEMBER_JOINED.log(log, group=group.id, member=member_id)
        return ShareMember(member_id)
    if epoch != JOINING_EPOCH:
        _check_epoch(known, epoch)
    return known


def _check_epoch(member: ShareMember, epoch: GroupEpoch) -> None:
    """Raises KafkaError FENCED_MEMBER_EPOCH unless the epoch is the member's, or the previous one: the member may not
    have received its new epoch.
    """
    if epoch in (member.epoch, member.previous_epoch):
        return
    previous = f", and it does not match the previous member epoch ({member.previous_epoch})"
    raise other_epoch("share", member, epoch, "" if epoch > member.epoch else previous)


def _updated(
    member: ShareMember, request: ShareGroupHeartbeatRequest, client: tuple[str, str]
) -> ShareMember:
    """Returns the member with the fields of the request; omitted fields keep their values."""
    names, rack = request.subscribed_topic_names, request.rack_id
    if names is None and rack is None and client == (member.client_id, member.client_host):
        return member
    return replace(
        member,
        rack_id=member.rack_id if rack is None else rack,
        client_id=client[0],
        client_host=client[1],
        subscribed_names=member.subscribed_names if names is None else tuple(sorted(set(names))),
    )


def _subscribe(operation: ShareOperation, before: ShareMember, member: ShareMember) -> bool:
    """Writes the member's own fields if they differ from `before`; returns whether its subscription has changed.

    Raises:
        KafkaError: GROUP_MAX_SIZE_REACHED if there is no memory for the subscription.
    """
    is_known = before.id in operation.group.members
    if is_known and before == member:
        return False
    operation.check_memory(member.held_bytes - (before.held_bytes if is_known else 0))
    operation.write_member(member)
    return before.subscribed_names != member.subscribed_names


def _refresh_epoch(operation: ShareOperation, changed: bool) -> bool:
    """Increments the epoch if subscriptions, the topics behind them, or their initialized partitions have changed;
    returns whether it did.
    """
    group, work = operation.group, operation.work
    is_assigned = group.assignment_epoch >= group.epoch
    if not changed and not (is_assigned and assigning.lacks_initialized(operation)):
        if work.checked_topics is operation.topics.version:
            return False
        if metadata_hash(group.name_counts, operation.topics) == group.metadata_hash:
            work.checked_topics = operation.topics.version
            return False
    operation.bump_epoch()
    return True


def _reconcile(operation: ShareOperation, member: ShareMember, bumped: bool) -> ShareMember:
    """Gives the member its part of the target, without topics that it does not subscribe to; returns the member."""
    group, epoch = operation.group, operation.group.assignment_epoch
    if not bumped and member.is_reconciled_to(epoch):
        return member
    names = set(member.subscribed_names)
    target = group.target.get(member.id, {})
    assigned = {t: mine for t, mine in target.items() if operation.topics.name_of(t) in names}
    moved = replace(member, assigned=assigned)
    if member.epoch != epoch:
        moved = replace(moved, epoch=epoch, previous_epoch=member.epoch, state=STABLE)
    if moved != member:
        operation.write_current(moved)
    return moved


def _assignment_of(assigned: Partitions) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in assigned.items()
        ]
    )


def next_heartbeat_ms(operation: ShareOperation) -> int:
    """Returns the heartbeat interval: the configured one, or less while partitions of subscribed topics are initialized
    or assigned.
    """
    group, wanted = operation.group, operation.settings.heartbeat_interval_ms
    if group.epoch <= group.assignment_epoch and not group.is_initializing:
        return wanted
    least = operation.settings.waiting_interval_ms_min
    return reconciling_interval_ms(len(group.members), wanted, least)


# -- leaving


def leave(
    operation: ShareOperation, request: ShareGroupHeartbeatRequest
) -> ShareGroupHeartbeatResponse:
    """Removes a member. Raises KafkaError UNKNOWN_MEMBER_ID."""
    group, member_id = operation.group, request.member_id
    if member_id not in group.members:
        raise unknown_member(group.id, member_id)
    events.GROUP_MEMBER_LEFT.log(log, group=group.id, member=member_id)
    remove(operation, member_id)
    return ShareGroupHeartbeatResponse(
        member_id=member_id, member_epoch=request.member_epoch, heartbeat_interval_ms=0
    )


def timed_out(operation: ShareOperation, member_id: str) -> None:
    """Removes a member whose session has expired."""
    if member_id in operation.group.members:
        operation.note_fenced(member_id, "its session expired")
        remove(operation, member_id)


def remove(operation: ShareOperation, member_id: str) -> None:
    """Removes a member; the others get its partitions with their next heartbeats. An empty group needs no target."""
    group = operation.group
    operation.cancel_timers(member_id)
    operation.write_without(member_id)
    operation.bump_epoch()
    if group.is_empty:
        operation.drop_target()
        operation.write_assignment_epoch(group.epoch, 0)
