"""SyncGroup, Heartbeat and LeaveGroup: taking part in a generation, and ending it.

Source: `GroupMetadataManager.classicGroupSync`, `-Heartbeat`, `-Leave` of Kafka 4.3. Different on purpose: while the
leader's assignment is being stored a second one is not accepted, so that what is stored is what members are told (G2);
a member that leaves with a parked request is answered.
"""

from __future__ import annotations

from broker.groups.group import ClassicGroup, GroupState
from broker.groups.member import Member, Token
from broker.groups.rebalance import complete_if_all_joined, drop, prepare, synced
from broker.groups.records import group_value
from broker.groups.turn import Answer, GroupWrite, Purpose, Timer, Turn, sync_error
from wire.errors import ErrorCode, KafkaError
from wire.messages.heartbeat import HeartbeatRequest
from wire.messages.leave_group import MemberIdentity, MemberResponse
from wire.messages.sync_group import SyncGroupRequest

S = GroupState


def sync(turn: Turn, request: SyncGroupRequest, token: Token) -> None:
    """Answers or parks a SyncGroup."""
    group = turn.group
    try:
        member = _check_sync(group, request)
    except KafkaError as error:
        turn.out.answers.append(Answer(token, sync_error(error.code)))
        return
    _note_synced(turn, member)
    if group.state is S.STABLE:
        turn.out.answers.append(Answer(token, synced(group, member)))
        return
    turn.answer_sync(member, sync_error(ErrorCode.REBALANCE_IN_PROGRESS))
    member.sync = token
    if group.leader == member.id and group.storing_generation is None:
        _store_assignment(turn, {a.member_id: a.assignment for a in request.assignments})


def _check_sync(group: ClassicGroup, request: SyncGroupRequest) -> Member:
    if group.state is S.EMPTY:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
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


def _note_synced(turn: Turn, member: Member) -> None:
    turn.group.awaiting_sync.discard(member.id)
    if not turn.group.awaiting_sync:
        turn.cancel_timer(Timer.SYNC)


def _store_assignment(turn: Turn, assignments: dict[str, bytes]) -> None:
    """The leader has decided; members the leader left out get nothing."""
    group = turn.group
    assignments = {member_id: assignments.get(member_id, b"") for member_id in group.members}
    group.storing_generation = group.generation
    turn.out.writes.append(
        GroupWrite(
            group.id,
            group.generation,
            Purpose.ASSIGNMENT,
            group_value(group, assignments),
            assignments,
        )
    )


def heartbeat(turn: Turn, request: HeartbeatRequest) -> ErrorCode:
    """Begins the member's session anew; the answer tells it when to join again."""
    group = turn.group
    member = group.check_member(request.member_id, request.group_instance_id)
    if request.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    turn.expect_heartbeat(member)
    if group.state is S.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def leave(turn: Turn, identities: list[MemberIdentity]) -> list[MemberResponse]:
    """Removes each member, or says why not; the group rebalances once for all of them."""
    group = turn.group
    before = len(group.members)
    responses = [_leave_one(turn, identity) for identity in identities]
    left = before - len(group.members)
    if left and group.state in {S.STABLE, S.COMPLETING_REBALANCE}:
        prepare(turn, f"{left} members left")
    else:
        complete_if_all_joined(turn)
    return responses


def _leave_one(turn: Turn, identity: MemberIdentity) -> MemberResponse:
    group, member_id = turn.group, identity.member_id
    code = ErrorCode.NONE
    if not member_id and identity.group_instance_id is not None:
        # An administrator removes a static member by its name alone.
        member_id = group.instances.get(identity.group_instance_id, "")
    if member_id not in group.pending:
        instance_id = identity.group_instance_id
        try:
            group.check_member(member_id, instance_id)
        except KafkaError as error:
            code = error.code
    if code is ErrorCode.NONE:
        drop(turn, member_id)
    return MemberResponse(
        member_id=identity.member_id,
        group_instance_id=identity.group_instance_id,
        error_code=code,
    )
