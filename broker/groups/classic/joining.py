"""JoinGroup: checks a client that joins a group, assigns its member id, and decides whether the group rebalances.

Source: `GroupMetadataManager.classicGroupJoin` of Kafka 4.3 (KIP-62, KIP-345 static members, KIP-394 member ids,
KIP-814 `skip_assignment`). Intentional differences: if a member repeats a waiting join, the first one is answered with
REBALANCE_IN_PROGRESS immediately (Kafka drops it); the number of pending members is bounded; and a full group takes
back a static member without its id (Kafka refuses it until its session ends).
"""

from __future__ import annotations

from dataclasses import dataclass

from trimaran.broker.groups.classic.group import ClassicGroup, GroupState
from trimaran.broker.groups.classic.member import Member, Protocols, size_of
from trimaran.broker.groups.classic.operation import (
    GroupOperation,
    GroupWrite,
    Purpose,
    StaticReplacement,
    join_error,
    sync_error,
)
from trimaran.broker.groups.classic.rebalance import (
    complete_if_all_joined,
    delay_initial_rebalance,
    drop,
    prepare,
    rebalance_or_complete,
)
from trimaran.broker.groups.classic.records import group_value
from trimaran.broker.groups.limits import (
    GROUP_BYTES_MAX,
    MEMBER_NAME_CHARACTERS_MAX,
    NEW_MEMBER_JOIN_TIMEOUT_MS,
    PENDING_MEMBERS_MAX,
)
from trimaran.broker.groups.memory import MEMBER_BYTES
from trimaran.broker.groups.outputs import Timer
from trimaran.node.replicated.pending import PendingResponse
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse

S = GroupState

# From this version on a client must join again with the id that it receives (KIP-394).
MEMBER_ID_VERSION = 4


@dataclass(frozen=True, slots=True)
class Join:
    """One JoinGroup request; `member_id_suffix` is random and makes new ids unique. The memory of a new member is
    charged to `principal`.
    """

    request: JoinGroupRequest
    version: int
    client_id: str
    client_host: str
    token: PendingResponse[JoinGroupResponse]
    member_id_suffix: str
    principal: str = ""
    connection: int = 0

    @property
    def rebalance_timeout_ms(self) -> int:
        """The rebalance timeout of the member; version 0 only has a session timeout."""
        return (
            self.request.rebalance_timeout_ms if self.version else self.request.session_timeout_ms
        )

    def protocols(self) -> Protocols:
        """Returns the requested protocols, each name once."""
        return tuple({p.name: p.metadata for p in reversed(self.request.protocols)}.items())[::-1]


def join(operation: GroupOperation, join: Join) -> str:
    """Answers `join.token`, now or later; returns the id of the member, even if it is refused."""
    group, request = operation.group, join.request
    present_id = _present_id(group, request)
    if not (_accepts(operation, present_id) and _fits(group, present_id, join)):
        drop(operation, request.member_id)
        _refuse(operation, join, ErrorCode.GROUP_MAX_SIZE_REACHED, "")
        complete_if_all_joined(operation)
    elif not group.supports(request.protocol_type, [p.name for p in request.protocols]):
        _refuse(operation, join, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id)
    elif not request.member_id:
        return _join_unknown(operation, join)
    elif request.member_id in group.pending and request.group_instance_id is None:
        _add(operation, join, request.member_id)
    else:
        _join_known(operation, join)
    return request.member_id


def _refuse(operation: GroupOperation, join: Join, code: ErrorCode, member_id: str) -> None:
    operation.respond(join.token, join_error(code, member_id))


def _present_id(group: ClassicGroup, request: JoinGroupRequest) -> str:
    """Returns the id under which the group knows the client: a static member without its id is still a member."""
    return request.member_id or group.instances.get(request.group_instance_id or "", "")


def _accepts(operation: GroupOperation, member_id: str) -> bool:
    """Returns whether the group's maximum size admits the member. The maximum may have been lowered: then the last
    members to rejoin are refused.
    """
    group, members_max = operation.group, operation.limits.members_max
    if len(group.pending) >= PENDING_MEMBERS_MAX and member_id not in group.pending:
        return member_id in group.members
    if len(group.members) < members_max:
        return True
    member = group.members.get(member_id)
    if group.state is S.PREPARING_REBALANCE:
        return (
            member is not None and member.join is not None
        ) or group.joining_count() < members_max
    return member is not None


def _fits(group: ClassicGroup, member_id: str, join: Join) -> bool:
    """Returns whether the metadata of all members fit into `GROUP_BYTES_MAX`, and all groups into the broker's
    limits.
    """
    member = group.members.get(member_id)
    before = 0 if member is None else size_of(member.protocols)
    more = size_of(join.protocols()) - before
    if group.bytes + more > GROUP_BYTES_MAX:
        return False
    return group.account.member_fits(
        join.principal, more if member is not None else MEMBER_BYTES + more
    )


# -- members without an id


def _join_unknown(operation: GroupOperation, join: Join) -> str:
    group, instance_id = operation.group, join.request.group_instance_id
    name = (instance_id or join.client_id)[:MEMBER_NAME_CHARACTERS_MAX]
    member_id = f"{name}-{join.member_id_suffix}"
    if instance_id is not None:
        if instance_id in group.instances:
            _replace_static(operation, join, group.members[group.instances[instance_id]], member_id)
        else:
            _add(operation, join, member_id)
    elif join.version >= MEMBER_ID_VERSION:
        group.account.owned_by((group.id, member_id), join.principal)
        group.add_pending(member_id)
        operation.set_timer(Timer.SESSION, join.request.session_timeout_ms, member_id)
        _refuse(operation, join, ErrorCode.MEMBER_ID_REQUIRED, member_id)
    else:
        _add(operation, join, member_id)
    return member_id


def _add(operation: GroupOperation, join: Join, member_id: str) -> None:
    group, request = operation.group, join.request
    member = Member(
        id=member_id,
        instance_id=request.group_instance_id,
        client_id=join.client_id,
        client_host=join.client_host,
        rebalance_timeout_ms=join.rebalance_timeout_ms,
        session_timeout_ms=request.session_timeout_ms,
        protocol_type=request.protocol_type,
        protocols=join.protocols(),
        is_new=True,
        join=join.token,
    )
    group.account.owned_by((group.id, member_id), join.principal)
    group.add(member)
    operation.expect_heartbeat(member, NEW_MEMBER_JOIN_TIMEOUT_MS)
    if group.in_initial_rebalance:
        delay_initial_rebalance(operation)
    rebalance_or_complete(
        operation, f"new member {member_id} ({request.reason or 'no reason given'})"
    )


def _replace_static(operation: GroupOperation, join: Join, member: Member, member_id: str) -> None:
    """Admits a returning static member without its id: it takes its own place, and its previous incarnation is
    fenced.
    """
    group = operation.group
    before = StaticReplacement(
        member=member,
        token=join.token,
        old_member_id=member.id,
        old_owner=group.account.owner((group.id, member.id)),
        old_leader=group.leader,
        old_protocols=member.protocols,
        old_rebalance_timeout_ms=member.rebalance_timeout_ms,
        old_session_timeout_ms=member.session_timeout_ms,
        version=join.version,
    )
    fenced = ErrorCode.FENCED_INSTANCE_ID
    operation.respond_to_join(member, join_error(fenced, member.id))
    operation.respond_to_sync(member, sync_error(fenced))
    operation.forget_heartbeat(member.id)
    group.account.owned_by((group.id, member_id), join.principal)
    group.rename(member, member_id)
    _update(operation, join, member)
    member.is_new = False
    operation.expect_heartbeat(member)
    if group.state is S.STABLE and group.select_protocol() == group.protocol_name:
        assignments = {m.id: m.assignment for m in group.members.values()}
        value = group_value(group, assignments)
        operation.effects.writes.append(
            GroupWrite(group.id, group.generation, Purpose.STATIC_MEMBER, value, replacement=before)
        )
    elif group.state is S.PREPARING_REBALANCE:
        complete_if_all_joined(operation)
    else:
        # The leader may have seen the old id already and would assign partitions to it.
        prepare(operation, f"static member {join.request.group_instance_id} is back as {member_id}")


# -- members with an id


def _join_known(operation: GroupOperation, join: Join) -> None:
    group, request = operation.group, join.request
    try:
        member = group.check_member(request.member_id, request.group_instance_id)
    except KafkaError as error:
        _refuse(operation, join, error.code, request.member_id)
        return
    changed = join.protocols() != member.protocols
    must_rebalance = (
        group.state is S.PREPARING_REBALANCE
        or changed
        # The leader requests a rebalance by joining, e.g. after a change of partitions.
        or (group.state is S.STABLE and group.leader == member.id)
    )
    if must_rebalance:
        _update(operation, join, member)
        rebalance_or_complete(
            operation, f"{member.id} joins again ({request.reason or 'no reason given'})"
        )
    else:
        # The member may have missed the response: its generation is still valid.
        operation.respond(join.token, operation.joined(member))


def _update(operation: GroupOperation, join: Join, member: Member) -> None:
    operation.respond_to_join(member, join_error(ErrorCode.REBALANCE_IN_PROGRESS, member.id))
    operation.group.set_protocols(member, join.protocols())
    member.rebalance_timeout_ms = join.rebalance_timeout_ms
    member.session_timeout_ms = join.request.session_timeout_ms
    member.join = join.token
    member.is_abandoned = False
    if member.is_new:
        operation.expect_heartbeat(member, NEW_MEMBER_JOIN_TIMEOUT_MS)
