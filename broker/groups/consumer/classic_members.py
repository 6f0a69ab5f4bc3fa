"""Members of the classic protocol in a consumer group: JoinGroup, SyncGroup, Heartbeat, LeaveGroup (KIP-848).

They approach the target like other members, one step per join: Heartbeat requests a rejoin (REBALANCE_IN_PROGRESS),
JoinGroup reconciles with the partitions that they report as owned, SyncGroup returns the partitions that they own
afterwards. No member leads. Intentional difference from Kafka: they rejoin when a new target exists, not while it is
being computed, which would need repeated joins. Source: `GroupMetadataManager.classicGroupJoinToConsumerGroup`,
`-SyncToConsumerGroup`, `-HeartbeatToConsumerGroup`, `-LeaveToConsumerGroup` of Kafka 4.4.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from trimaran.broker import events
from trimaran.broker.groups.classic.joining import MEMBER_ID_VERSION, Join
from trimaran.broker.groups.classic.member import CONSUMER_PROTOCOL
from trimaran.broker.groups.classic.operation import join_error, leave_response
from trimaran.broker.groups.consumer import admission, assigning, fencing, heartbeat
from trimaran.broker.groups.consumer.describe import CONSUMER
from trimaran.broker.groups.consumer.group import ConsumerGroup
from trimaran.broker.groups.consumer.member import ConsumerMember, MemberState
from trimaran.broker.groups.consumer.migration import (
    classic_assignment,
    classic_metadata,
    downgrade_if_classic,
    owned_by_subscription,
    waits_for_others,
)
from trimaran.broker.groups.consumer.operation import (
    ConsumerOperation,
    ConsumerTimer,
)
from trimaran.broker.groups.consumer.settings import MigrationPolicy
from trimaran.broker.groups.heartbeating.admission import check_instance, known_static
from trimaran.broker.groups.heartbeating.operation import HeartbeatGroupWrite
from trimaran.broker.groups.limits import MEMBER_NAME_CHARACTERS_MAX
from trimaran.wire.errors import ErrorCode, KafkaError, RemoteProtocolError
from trimaran.wire.messages.consumer_protocol import (
    ConsumerProtocolSubscription,
    decode_subscription,
)
from trimaran.wire.messages.heartbeat import HeartbeatRequest
from trimaran.wire.messages.join_group import JoinGroupResponse
from trimaran.wire.messages.leave_group import MemberIdentity, MemberResponse
from trimaran.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

log = logging.getLogger(__name__)


# -- JoinGroup


def join(operation: ConsumerOperation, join: Join) -> HeartbeatGroupWrite:
    """Returns the write, with the response that follows it.

    Raises:
        KafkaError: the reason for a refusal.
    """
    request, group = join.request, operation.group
    if operation.settings.migration is MigrationPolicy.DISABLED:
        raise KafkaError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"Cannot join the consumer group {group.id} with the classic protocol because the group migration is "
            "disabled.",
        )
    name = (request.group_instance_id or join.client_id)[:MEMBER_NAME_CHARACTERS_MAX]
    member_id = request.member_id or f"{name}-{join.member_id_suffix}"
    admission.check_size(operation, member_id, request.group_instance_id)
    subscription = _check_protocols(group, join)
    is_dynamic = request.group_instance_id is None
    if not request.member_id and is_dynamic and join.version >= MEMBER_ID_VERSION:
        return _response(operation, join, join_error(ErrorCode.MEMBER_ID_REQUIRED, member_id))
    before = _admit(operation, join, member_id)
    updated = replace(
        before,
        instance_id=request.group_instance_id or before.instance_id,
        rack_id=subscription.rack_id or before.rack_id,
        client_id=join.client_id,
        client_host=join.client_host,
        rebalance_timeout_ms=join.rebalance_timeout_ms,
        subscribed_names=tuple(sorted(set(subscription.topics))),
        regex="",
        assignor=None,
        classic=classic_metadata(request.session_timeout_ms, join.protocols()),
    )
    changed = heartbeat.subscribe(operation, before, updated)
    heartbeat.refresh_epoch(operation, changed)
    assigning.assign_if_due(operation)
    reported = owned_by_subscription(subscription, operation.topics)
    updated = heartbeat.move_on(operation, member_id, reported, changed)
    operation.cancel_timer(ConsumerTimer.CLASSIC_JOIN, member_id)
    operation.expect_heartbeat(updated)
    operation.set_timer(ConsumerTimer.CLASSIC_SYNC, updated.rebalance_timeout_ms, member_id)
    response = JoinGroupResponse(
        generation_id=updated.epoch,
        protocol_type=CONSUMER_PROTOCOL,
        protocol_name=_protocol_name(updated),
        leader="",
        member_id=member_id,
        members=[],
    )
    # The last member of the consumer protocol may have been a static one that has returned with the classic protocol.
    downgrade_if_classic(operation)
    return _response(operation, join, response)


def _response(
    operation: ConsumerOperation, join: Join, response: JoinGroupResponse
) -> HeartbeatGroupWrite:
    return HeartbeatGroupWrite(
        kind=CONSUMER,
        group_id=operation.group.id,
        records=operation.records,
        token=join.token,
        response=response,
        refused=lambda code: join_error(code, join.request.member_id),
    )


def _check_protocols(group: ConsumerGroup, join: Join) -> ConsumerProtocolSubscription:
    """Returns the member's subscription. Raises KafkaError INCONSISTENT_GROUP_PROTOCOL, also if it cannot be parsed."""
    refusal = KafkaError(
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        f"The protocols of the member are not supported by group {group.id}.",
    )
    protocols = join.protocols()
    if join.request.protocol_type != CONSUMER_PROTOCOL or not protocols:
        raise refusal
    common = {name for name, _ in protocols}
    for member in group.members.values():
        if member.classic is not None and member.id != join.request.member_id:
            common &= {protocol.name for protocol in member.classic.supported_protocols}
            if not common:
                raise refusal
    try:
        return decode_subscription(protocols[0][1])
    except RemoteProtocolError:
        raise refusal from None


def _admit(operation: ConsumerOperation, join: Join, member_id: str) -> ConsumerMember:
    request, group = join.request, operation.group
    if request.group_instance_id is not None:
        instance_id = request.group_instance_id
        if request.member_id:
            return known_static(group, member_id, instance_id)
        return admission.admit_static(operation, member_id, instance_id, uses_classic_protocol=True)
    known = group.members.get(member_id)
    if known is None:
        events.GROUP_CLASSIC_MEMBER_JOINED.log(log, group=group.id, member=member_id)
        return ConsumerMember(member_id)
    return known


def _protocol_name(member: ConsumerMember) -> str:
    """Returns the member's preferred protocol; the name is not used otherwise."""
    assert member.classic is not None
    return member.classic.supported_protocols[0].name


# -- SyncGroup


def sync(operation: ConsumerOperation, request: SyncGroupRequest) -> SyncGroupResponse:
    """Returns the member's assignment. Raises KafkaError if the request is refused."""
    member = _member(operation.group, request.member_id, request.group_instance_id)
    _check_generation(member, request.generation_id)
    types, names = (None, CONSUMER_PROTOCOL), (None, _protocol_name(member))
    if request.protocol_type not in types or request.protocol_name not in names:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if (
        operation.group.assignment_epoch > member.epoch
        and member.state is not MemberState.UNREVOKED_PARTITIONS
    ):
        operation.set_timer_if_absent(
            ConsumerTimer.CLASSIC_JOIN, member.rebalance_timeout_ms, member.id
        )
        raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
    operation.cancel_timer(ConsumerTimer.CLASSIC_SYNC, member.id)
    operation.expect_heartbeat(member)
    return SyncGroupResponse(
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=classic_assignment(member, operation.topics),
    )


def _member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
    """Returns the member. Raises KafkaError UNKNOWN_MEMBER_ID, also for members of the consumer protocol, or
    FENCED_INSTANCE_ID.
    """
    if instance_id is None:
        member = group.members.get(member_id)
    else:
        member = group.static_member(instance_id)
        if member is not None and member_id:
            check_instance(member, member_id)
    if member is None or not member.uses_classic_protocol:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    return member


def _check_generation(member: ConsumerMember, generation: int) -> None:
    if generation != member.epoch:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)


# -- Heartbeat and LeaveGroup


def keep_alive(operation: ConsumerOperation, request: HeartbeatRequest) -> ErrorCode:
    """Restarts the member's session. Returns REBALANCE_IN_PROGRESS if it must take a step towards its target by
    rejoining.

    Raises:
        KafkaError: the reason for a refusal.
    """
    group = operation.group
    member = _member(group, request.member_id, request.group_instance_id)
    _check_generation(member, request.generation_id)
    operation.expect_heartbeat(member)
    if (
        member.epoch < group.assignment_epoch
        or member.state is MemberState.UNREVOKED_PARTITIONS
        or (
            member.state is MemberState.UNRELEASED_PARTITIONS
            and not waits_for_others(group, member)
        )
    ):
        operation.set_timer_if_absent(
            ConsumerTimer.CLASSIC_JOIN, member.rebalance_timeout_ms, member.id
        )
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def leave(operation: ConsumerOperation, identities: list[MemberIdentity]) -> list[MemberResponse]:
    """Removes each member, or returns its error."""
    leaving: dict[str, ConsumerMember] = {}
    responses = []
    for identity in identities:
        code = ErrorCode.NONE
        try:
            member = _member(operation.group, identity.member_id, identity.group_instance_id)
            leaving[member.id] = member
        except KafkaError as error:
            code = error.code
        responses.append(leave_response(identity, code))
    if leaving:
        fencing.remove(operation, list(leaving.values()))
    return responses
