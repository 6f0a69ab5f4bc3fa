"""ConsumerGroupHeartbeat: a member joins, stays or leaves, and approaches its target.

Source: `GroupMetadataManager.consumerGroupHeartbeat`, `-Leave` of Kafka 4.4 (KIP-848, KIP-1082). Intentional
differences: while a group reconciles, its members get a shorter interval than the configured one
(`next_heartbeat_ms`); a member that still has its previous epoch gets its assignment again, because the response with
it may be lost.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from trimaran.broker import events
from trimaran.broker.groups.consumer import assigning, fencing, regexes
from trimaran.broker.groups.consumer.admission import admit, check_memory
from trimaran.broker.groups.consumer.group import ConsumerGroup
from trimaran.broker.groups.consumer.member import ConsumerMember, Owned
from trimaran.broker.groups.consumer.operation import ConsumerOperation
from trimaran.broker.groups.consumer.reconciliation import Reported, owned_partitions, reconcile
from trimaran.broker.groups.consumer.settings import MEMBER_ID_CHARACTERS_MAX, RECONCILING_MS
from trimaran.broker.groups.heartbeating.admission import known_static, unknown_member
from trimaran.broker.groups.heartbeating.member import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    LEAVING_STATIC_EPOCH,
)
from trimaran.broker.groups.heartbeating.operation import HeartbeatTimer
from trimaran.broker.groups.heartbeating.settings import (
    SUBSCRIPTION_BYTES_MAX,
    reconciling_interval_ms,
)
from trimaran.broker.groups.topics import metadata_hash
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

log = logging.getLogger(__name__)

# From this version on members choose their own ids (KIP-1082).
OWN_MEMBER_ID_VERSION = 1


# -- checks of a request that do not depend on the group


def check_request(
    request: ConsumerGroupHeartbeatRequest, version: int, assignors: tuple[str, ...]
) -> None:
    """Raises KafkaError INVALID_REQUEST or UNSUPPORTED_ASSIGNOR for an invalid request."""
    _check_texts(request, version)
    epoch = request.member_epoch
    if epoch == JOINING_EPOCH:
        _check_joining(request)
    elif epoch == LEAVING_STATIC_EPOCH and request.instance_id is None:
        raise _invalid("InstanceId can't be null.")
    elif epoch < LEAVING_STATIC_EPOCH:
        raise _invalid("MemberEpoch is invalid.")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. "
            f"Supported assignors: {', '.join(assignors)}.",
        )
    if sum(map(len, request.subscribed_topic_names or ())) > SUBSCRIPTION_BYTES_MAX:
        raise _invalid("The subscription is too large.")


def _check_texts(request: ConsumerGroupHeartbeatRequest, version: int) -> None:
    epoch = request.member_epoch
    needs_id = epoch > JOINING_EPOCH or epoch == LEAVING_EPOCH or version >= OWN_MEMBER_ID_VERSION
    if needs_id and not request.member_id.strip():
        raise _invalid("MemberId can't be empty.")
    if not request.group_id.strip():
        raise _invalid("GroupId can't be empty.")
    if request.instance_id is not None and not request.instance_id.strip():
        raise _invalid("InstanceId can't be empty.")
    if request.rack_id is not None and not request.rack_id.strip():
        raise _invalid("RackId can't be empty.")
    if len(request.member_id) > MEMBER_ID_CHARACTERS_MAX:
        raise _invalid("MemberId is too long.")


def _check_joining(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == -1:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    if request.topic_partitions is None or request.topic_partitions:
        raise _invalid("TopicPartitions must be empty when (re-)joining.")
    # An empty list or pattern is valid: the member subscribes to nothing.
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise _invalid(
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
        )


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


# -- joining and staying


def heartbeat(
    operation: ConsumerOperation,
    request: ConsumerGroupHeartbeatRequest,
    member_id: str,
    client: tuple[str, str],
    may_see: regexes.MaySee,
    refused: KafkaError | None = None,
) -> ConsumerGroupHeartbeatResponse:
    """Decides on records and returns the response; `client` is the member's client id and host, `refused` the error of
    its pattern.

    Raises:
        KafkaError: GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, UNRELEASED_INSTANCE_ID,
            FENCED_INSTANCE_ID, INVALID_REGULAR_EXPRESSION.
    """
    group = operation.group
    reported = owned_partitions(
        None
        if request.topic_partitions is None
        else [(topic.topic_id, topic.partitions) for topic in request.topic_partitions]
    )
    member = admit(operation, request, member_id, reported)
    updated = _updated(member, request, client)
    assigned_before = member.assigned
    changed, needs_target = _take_up(operation, member, updated)
    if refused is not None:
        raise refused
    regexes.update(operation, updated, may_see)
    refresh_epoch(operation, needs_target or (changed and is_resolved(group, member, updated)))
    assigning.assign_if_due(operation)
    updated = move_on(operation, updated.id, reported, changed)
    operation.expect_heartbeat(updated)
    response = ConsumerGroupHeartbeatResponse(
        member_id=updated.id,
        member_epoch=updated.epoch,
        heartbeat_interval_ms=next_heartbeat_ms(operation, group, updated),
    )
    says_everything = (
        request.rebalance_timeout_ms != -1
        and request.subscribed_topic_names is not None
        and request.topic_partitions is not None
    )
    has_changed = not _same_partitions(assigned_before, updated.assigned)
    may_lack = False
    if has_changed or operation.work.unconfirmed:
        may_lack = operation.may_lack_assignment(
            updated,
            is_confirmed=_is_whole(reported, updated.assigned),
            is_changed=has_changed and updated.epoch == member.epoch,
        )
    if (
        request.member_epoch == JOINING_EPOCH
        or request.member_epoch != member.epoch
        or says_everything
        or has_changed
        or may_lack
    ):
        response.assignment = _assignment_of(updated.assigned)
    return response


def _take_up(
    operation: ConsumerOperation, member: ConsumerMember, updated: ConsumerMember
) -> tuple[bool, bool]:
    """Writes the member if it has changed. Returns whether its subscription has changed, and whether most members now
    prefer another assignor.
    """
    if updated is member:
        return False, False
    group, default = operation.group, operation.settings.assignors[0]
    preferred = assigning.preferred_assignor(group, default)
    changed = subscribe(operation, member, updated)
    return changed, preferred != assigning.preferred_assignor(group, default)


def _updated(
    member: ConsumerMember, request: ConsumerGroupHeartbeatRequest, client: tuple[str, str]
) -> ConsumerMember:
    """Returns the member with the fields of the request; omitted fields keep their values."""
    names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
    if _only_keeps_alive(request) and client == (member.client_id, member.client_host):
        return member if member.classic is None else replace(member, classic=None)
    return replace(
        member,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        client_id=client[0],
        client_host=client[1],
        rebalance_timeout_ms=(
            member.rebalance_timeout_ms
            if request.rebalance_timeout_ms == -1
            else request.rebalance_timeout_ms
        ),
        subscribed_names=member.subscribed_names if names is None else tuple(sorted(set(names))),
        regex=member.regex if regex is None else regex,
        assignor=member.assignor if request.server_assignor is None else request.server_assignor,
        classic=None,
    )


def _only_keeps_alive(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Returns whether the request omits the member's fields and only keeps the member alive, as nearly all
    requests do.
    """
    return (
        request.rebalance_timeout_ms == -1
        and request.subscribed_topic_names is None
        and request.subscribed_topic_regex is None
        and request.server_assignor is None
        and request.instance_id is None
        and request.rack_id is None
    )


def _is_whole(reported: Reported, assigned: Owned) -> bool:
    """Whether the member reports exactly these partitions."""
    return reported is not None and reported == {t: p.keys() for t, p in assigned.items()}


def _same_partitions(owned: Owned, other: Owned) -> bool:
    if owned is other:
        return True
    return {t: p.keys() for t, p in owned.items()} == {t: p.keys() for t, p in other.items()}


def _assignment_of(assigned: Owned) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in assigned.items()
        ]
    )


# -- effects


def subscribe(operation: ConsumerOperation, before: ConsumerMember, member: ConsumerMember) -> bool:
    """Writes the member's own fields if they differ from `before`; returns whether its subscription has changed.

    Raises:
        KafkaError: GROUP_MAX_SIZE_REACHED if there is no memory for the subscription.
    """
    if before is member or before == member:
        return False
    check_memory(operation, before, member)
    operation.write_member(member)
    is_new = before.epoch == JOINING_EPOCH and not before.subscribed_names and not before.regex
    return (
        is_new or before.subscribed_names != member.subscribed_names or before.regex != member.regex
    )


def is_resolved(group: ConsumerGroup, before: ConsumerMember, member: ConsumerMember) -> bool:
    """Returns whether the effect of a changed subscription is known. A first pattern that is not resolved yet does not
    require a new target.
    """
    names_changed = before.subscribed_names != member.subscribed_names
    return names_changed or bool(before.regex) or member.regex in group.regexes


def refresh_epoch(operation: ConsumerOperation, changed: bool) -> None:
    """Increments the epoch if subscriptions, or the topics behind them, have changed."""
    group, work = operation.group, operation.work
    if not changed:
        if not group.epoch:
            operation.begin()
        if work.checked_topics is operation.topics.version:
            return
        found = metadata_hash(group.subscribed_topics(), operation.topics)
        if found == group.metadata_hash:
            work.checked_topics = operation.topics.version
            return
    operation.bump_epoch()


def move_on(
    operation: ConsumerOperation, member_id: str, reported: Reported, changed: bool
) -> ConsumerMember:
    """Moves the member one step towards its target."""
    group = operation.group
    member = group.members[member_id]
    target = group.target.get(member_id, {})
    gives_up = False
    if changed:
        names = group.topics_of(member)
        target = {t: p for t, p in target.items() if operation.topics.name_of(t) in names}
        gives_up = any(operation.topics.name_of(t) not in names for t in member.assigned)
    epoch = group.assignment_epoch
    moved = reconcile(member, epoch, target, group.owners, reported, gives_up=gives_up)
    if operation.replaced:
        operation.cancel_timers(operation.replaced)
    if moved is not member and moved != member:
        operation.write_step(moved)
    return moved


def next_heartbeat_ms(
    operation: ConsumerOperation, group: ConsumerGroup, member: ConsumerMember
) -> int:
    """Returns the heartbeat interval: the configured one, or less while the group reconciles."""
    wanted = operation.settings.heartbeat_interval_ms
    is_under_way = (
        group.epoch > group.assignment_epoch
        or not member.is_reconciled_to(group.assignment_epoch)
        or bool(operation.work.regexes)
        or operation.at.now_ms - group.assignment_timestamp_ms < RECONCILING_MS
    )
    if not is_under_way:
        return wanted
    least = operation.settings.reconciling_interval_ms_min
    return reconciling_interval_ms(len(group.members), wanted, least)


# -- leaving


def leave(
    operation: ConsumerOperation, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse:
    """Removes a member, or marks a static member as temporarily gone (epoch -2).

    Raises:
        KafkaError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
    """
    group, member_id = operation.group, request.member_id
    if request.instance_id is None:
        member = group.members.get(member_id)
        if member is None:
            raise unknown_member(group.id, member_id)
    else:
        member = known_static(group, member_id, request.instance_id)
    if request.member_epoch == LEAVING_STATIC_EPOCH:
        events.GROUP_STATIC_MEMBER_LEFT.log(log, group=group.id, instance=request.instance_id)
        operation.write_current(replace(member, epoch=LEAVING_STATIC_EPOCH, revoking={}))
        operation.cancel_timer(HeartbeatTimer.REVOCATION, member_id)
    else:
        events.GROUP_MEMBER_LEFT.log(log, group=group.id, member=member_id)
        fencing.remove(operation, [member])
    return ConsumerGroupHeartbeatResponse(
        member_id=member_id, member_epoch=request.member_epoch, heartbeat_interval_ms=0
    )
