"""SyncGroup, Heartbeat and LeaveGroup: taking part in a generation, and leaving it.

Source: `GroupMetadataManager.classicGroupSync`, `-Heartbeat`, `-Leave` of Kafka 4.3. Intentional differences: while the
leader's assignment is being stored, a second one is not accepted, so that members receive the stored one (G2); a stable
group's assignment is sent when it is committed, which may take a moment on a new coordinator (Kafka sends it
immediately); a member that leaves gets a response to its waiting requests.
"""

from __future__ import annotations

from collections.abc import Mapping

from trimaran.broker.groups.classic.group import ClassicGroup, GroupState
from trimaran.broker.groups.classic.member import Member
from trimaran.broker.groups.classic.operation import (
    ClassicTimer,
    GroupOperation,
    GroupWrite,
    Purpose,
    leave_response,
    sync_error,
)
from trimaran.broker.groups.classic.rebalance import complete_if_all_joined, drop, prepare, synced
from trimaran.broker.groups.classic.records import group_value
from trimaran.node.replicated.pending import PendingResponse
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.heartbeat import HeartbeatRequest
from trimaran.wire.messages.leave_group import MemberIdentity, MemberResponse
from trimaran.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

S = GroupState


def sync(
    operation: GroupOperation, request: SyncGroupRequest, token: PendingResponse[SyncGroupResponse]
) -> None:
    """Answers `token`, now or later."""
    group = operation.group
    try:
        member = _check_sync(group, request)
    except KafkaError as error:
        operation.respond(token, sync_error(error.code))
        return
    _note_synced(operation, member)
    if group.state is S.STABLE:
        operation.respond_committed(token, synced(group, member), sync_error)
        return
    operation.respond_to_sync(member, sync_error(ErrorCode.REBALANCE_IN_PROGRESS))
    assignments = {a.member_id: a.assignment for a in request.assignments}
    stores = group.leader == member.id and group.storing_generation is None
    if stores and not _fits(group, member, assignments):
        operation.respond(token, sync_error(ErrorCode.GROUP_MAX_SIZE_REACHED))
        return
    member.sync = token
    if stores:
        _store_assignment(operation, assignments)


def _check_sync(group: ClassicGroup, request: SyncGroupRequest) -> Member:
    member = group.check_member(request.member_id, request.group_instance_id)
    if request.generation_id != group.generation:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    if _differs(request.protocol_type, group.protocol_type) or _differs(
        request.protocol_name, group.protocol_name
    ):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if group.state is S.PREPARING_REBALANCE:
        raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
    return member


def _differs(asked: str | None, known: str | None) -> bool:
    return asked is not None and known is not None and asked != known


def _note_synced(operation: GroupOperation, member: Member) -> None:
    operation.group.awaiting_sync.discard(member.id)
    if not operation.group.awaiting_sync:
        operation.cancel_timer(ClassicTimer.SYNC)


def _fits(group: ClassicGroup, leader: Member, assignments: Mapping[str, bytes]) -> bool:
    """Returns whether the broker's limits admit the assignments; members have none before a generation."""
    more = sum(len(assignments.get(member_id, b"")) for member_id in group.members)
    return group.account.member_fits(group.account.owner((group.id, leader.id)), more)


def _store_assignment(operation: GroupOperation, assignments: dict[str, bytes]) -> None:
    """Writes the leader's assignment; members omitted from it get an empty one."""
    group = operation.group
    assignments = {member_id: assignments.get(member_id, b"") for member_id in group.members}
    group.storing_generation = group.generation
    operation.effects.writes.append(
        GroupWrite(
            group.id,
            group.generation,
            Purpose.ASSIGNMENT,
            group_value(group, assignments),
            assignments,
        )
    )


def heartbeat(operation: GroupOperation, request: HeartbeatRequest) -> ErrorCode:
    """Restarts the member's session; the returned code requests a rejoin if needed."""
    group = operation.group
    member = group.check_member(request.member_id, request.group_instance_id)
    if request.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    operation.expect_heartbeat(member)
    if group.state is S.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def leave(operation: GroupOperation, identities: list[MemberIdentity]) -> list[MemberResponse]:
    """Removes each member, or returns its error; the group rebalances once for all of them."""
    group = operation.group
    before = len(group.members)
    responses = [_leave_one(operation, identity) for identity in identities]
    left = before - len(group.members)
    if left and group.state in {S.STABLE, S.COMPLETING_REBALANCE}:
        prepare(operation, f"{left} members left")
    else:
        complete_if_all_joined(operation)
    return responses


def _leave_one(operation: GroupOperation, identity: MemberIdentity) -> MemberResponse:
    group, member_id = operation.group, identity.member_id
    code = ErrorCode.NONE
    if not member_id and identity.group_instance_id is not None:
        # An administrator may remove a static member by its instance id only.
        member_id = group.instances.get(identity.group_instance_id, "")
    if member_id not in group.pending:
        instance_id = identity.group_instance_id
        try:
            group.check_member(member_id, instance_id)
        except KafkaError as error:
            code = error.code
    if code is ErrorCode.NONE:
        drop(operation, member_id)
    return leave_response(identity, code)
