"""The course of a rebalance: how it starts, when the join phase ends, and how each timeout is handled.

Source: the classic parts of Kafka's `GroupMetadataManager` (KIP-62, KIP-134, KIP-345, KIP-394). Every phase has a
timer, and therefore ends even if a member is stuck (invariant G7; KAFKA-9752, KAFKA-12890, KAFKA-14422). Intentional
differences: the initial delay starts at the newest member's arrival (Kafka adds whole delays), and a removed member
gets a response.
"""

from __future__ import annotations

import logging

from trimaran.broker import events
from trimaran.broker.groups.classic.group import ClassicGroup, GroupState, is_to_rebalance
from trimaran.broker.groups.classic.member import Member
from trimaran.broker.groups.classic.operation import (
    ClassicTimer,
    GroupOperation,
    GroupWrite,
    Purpose,
    join_error,
    sync_error,
)
from trimaran.broker.groups.classic.records import group_value
from trimaran.broker.groups.limits import JOIN_PHASE_MS_MIN
from trimaran.broker.groups.outputs import Timer, TimerKey
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.sync_group import SyncGroupResponse
from trimaran.wire.records.groups import GroupMetadataValue

log = logging.getLogger(__name__)

S = GroupState
CAN_REBALANCE = frozenset({S.STABLE, S.COMPLETING_REBALANCE, S.EMPTY})


# -- start


def rebalance_or_complete(operation: GroupOperation, reason: str) -> None:
    """Handles a change of the members: starts a rebalance, or, during a join phase, ends that phase if all members have
    joined.
    """
    if operation.group.state in CAN_REBALANCE:
        prepare(operation, reason)
    else:
        complete_if_all_joined(operation)


def loaded(operation: GroupOperation, value: GroupMetadataValue | None) -> None:
    """Takes over a group as the new coordinator; `value` is the group's record, if any."""
    if operation.group.state is not S.STABLE:
        return
    assert value is not None, "a stable group has a record"
    if is_to_rebalance(value):
        prepare(operation, "it was a consumer group")
    elif len(operation.group.members) > operation.limits.members_max:
        prepare(operation, "the loaded group is over its maximal size")


def prepare(operation: GroupOperation, reason: str) -> None:
    """Starts a rebalance: all members must rejoin."""
    group = operation.group
    if group.state is S.COMPLETING_REBALANCE:
        reset_assignments(operation, ErrorCode.REBALANCE_IN_PROGRESS)
    group.awaiting_sync.clear()
    operation.cancel_timer(ClassicTimer.SYNC)
    initial = group.state is S.EMPTY
    group.transition(S.PREPARING_REBALANCE, operation.at.now_ms)
    events.GROUP_REBALANCING.log(log, group=group, reason=reason)
    if initial:
        wait_ms = max(operation.limits.initial_rebalance_delay_ms, group.rebalance_timeout_ms())
        group.initial_rebalance_end = operation.at.after_ms(wait_ms)
        delay_initial_rebalance(operation)
    elif group.all_joined():
        complete_join(operation)
    else:
        operation.set_timer(ClassicTimer.JOIN, group.rebalance_timeout_ms())


def delay_initial_rebalance(operation: GroupOperation) -> None:
    """Delays the end of a new group's first rebalance until a delay after the newest member arrived, but at most until
    a rebalance timeout after the first member arrived.
    """
    delayed = operation.at.after_ms(operation.limits.initial_rebalance_delay_ms)
    key = TimerKey(ClassicTimer.JOIN, operation.group.id)
    operation.timers.set(key, min(delayed, operation.group.initial_rebalance_end))


# -- the end of the join phase


def complete_if_all_joined(operation: GroupOperation) -> None:
    """Ends the join phase early if all members have joined, except for the first join phase of a group, which waits for
    its delay.
    """
    group = operation.group
    if (
        group.state is S.PREPARING_REBALANCE
        and not group.in_initial_rebalance
        and group.all_joined()
    ):
        complete_join(operation)


def complete_join(operation: GroupOperation) -> None:
    """Ends the join phase with the joined members; static members keep their place until their session ends."""
    group = operation.group
    operation.cancel_timer(ClassicTimer.JOIN)
    for member in [m for m in group.members.values() if m.join is None and not m.is_static]:
        drop(operation, member.id)
    if not group.elect_joined_leader() and group.members:
        # Only static members are left, and none of them has rejoined: they may still join until their sessions end.
        operation.set_timer(ClassicTimer.JOIN, max(group.rebalance_timeout_ms(), JOIN_PHASE_MS_MIN))
        return
    group.begin_generation(operation.at.now_ms)
    if group.state is S.EMPTY:
        operation.effects.writes.append(
            GroupWrite(group.id, group.generation, Purpose.EMPTY_GENERATION, group_value(group, {}))
        )
        return
    events.GROUP_GENERATION.log(log, group=group)
    for member in group.members.values():
        operation.respond_to_join(member, operation.joined(member))
        if not member.is_abandoned:
            operation.expect_heartbeat(member)
        member.is_new = False
        group.awaiting_sync.add(member.id)
    operation.set_timer(ClassicTimer.SYNC, group.rebalance_timeout_ms())


# -- assignments


def reset_assignments(operation: GroupOperation, code: ErrorCode) -> None:
    """Discards the assignment of this generation; members that wait for it get `code`."""
    operation.group.storing_generation = None
    for member in operation.group.members.values():
        operation.group.set_assignment(member, b"")
        if operation.respond_to_sync(member, sync_error(code)):
            operation.expect_heartbeat(member)


def assign(operation: GroupOperation, assignments: dict[str, bytes]) -> None:
    """Makes the generation stable, after the leader's assignment was committed."""
    group = operation.group
    group.storing_generation = None
    for member in group.members.values():
        group.set_assignment(member, assignments.get(member.id, b""))
        if operation.respond_to_sync(member, synced(group, member)):
            operation.expect_heartbeat(member)
    group.transition(S.STABLE, operation.at.now_ms)


def synced(group: ClassicGroup, member: Member) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=member.assignment,
    )


# -- removal of members


def drop(operation: GroupOperation, member_id: str) -> Member | None:
    """Removes a member or pending member; its waiting requests are answered with UNKNOWN_MEMBER_ID, so that it may
    rejoin.
    """
    operation.forget_heartbeat(member_id)
    member = operation.group.remove(member_id)
    if member is not None:
        operation.respond_to_join(member, join_error(ErrorCode.UNKNOWN_MEMBER_ID))
        operation.respond_to_sync(member, sync_error(ErrorCode.UNKNOWN_MEMBER_ID))
    return member


def session_expired(operation: GroupOperation, member_id: str) -> None:
    """Handles the end of the session of a member or pending member."""
    group = operation.group
    member = group.members.get(member_id)
    if member is not None and member.satisfies_heartbeat:
        return  # a new session begins with the awaited response
    if member is None and member_id not in group.pending:
        return
    events.GROUP_MEMBER_FAILED.log(log, member=member_id, group=group.id)
    drop(operation, member_id)
    if group.state in {S.STABLE, S.COMPLETING_REBALANCE} and member is not None:
        prepare(operation, f"the session of {member_id} expired")
    elif group.state is S.PREPARING_REBALANCE and group.all_joined():
        complete_join(operation)


def sync_expired(operation: GroupOperation) -> None:
    """Removes members that received the generation but never synced: their partitions would not be consumed."""
    late = sorted(operation.group.awaiting_sync)
    if not late:
        return
    for member_id in late:
        drop(operation, member_id)
    prepare(operation, f"{', '.join(late)} did not sync in time")


# -- writes


def committed(operation: GroupOperation, write: GroupWrite) -> None:
    """Handles the commit of `write`."""
    group = operation.group
    match write.purpose, group.state:
        case Purpose.ASSIGNMENT, S.COMPLETING_REBALANCE:
            if group.storing_generation == write.generation:
                assign(operation, write.assignments)
        case Purpose.STATIC_MEMBER, S.STABLE:
            _admit_replacement(operation, write)
        case _:  # the group is empty, or in a later state
            pass


def write_failed(operation: GroupOperation, write: GroupWrite, code: ErrorCode) -> None:
    """Handles a `write` that failed or was not committed in time."""
    group = operation.group
    events.GROUP_WRITE_FAILED.log(log, group=group, purpose=write.purpose.value, error=code.name)
    if write.generation != group.generation:
        return
    match write.purpose, group.state:
        case Purpose.ASSIGNMENT, S.COMPLETING_REBALANCE:
            reset_assignments(operation, code)
            prepare(operation, f"the assignment could not be stored: {code.name}")
        case Purpose.STATIC_MEMBER, S.STABLE:
            _revert_replacement(operation, write, code)
        case _:  # the group is empty, or in a later state
            pass


def _admit_replacement(operation: GroupOperation, write: GroupWrite) -> None:
    """Admits a static member with a new id without a rebalance, since nothing else has changed (KIP-345, KIP-814)."""
    replaced = write.replacement
    assert replaced is not None
    member = replaced.member
    if member.join is not replaced.token:
        return
    response = operation.joined(member)
    if replaced.version >= 9:
        response.skip_assignment = operation.group.leader == member.id
    else:
        # As leader, the member would compute an assignment that no member waits for.
        response.leader = replaced.old_leader or ""
        response.members = []
    operation.respond_to_join(member, response)
    member.is_new = False
    operation.expect_heartbeat(member)


def _revert_replacement(operation: GroupOperation, write: GroupWrite, code: ErrorCode) -> None:
    replaced, group = write.replacement, operation.group
    assert replaced is not None
    member = replaced.member
    if member.join is not replaced.token:
        return
    response = operation.joined(member)
    response.error_code, response.member_id, response.members = code, "", []
    response.leader = replaced.old_leader or ""
    operation.respond_to_join(member, response)
    operation.forget_heartbeat(member.id)
    group.set_protocols(member, replaced.old_protocols)
    member.rebalance_timeout_ms = replaced.old_rebalance_timeout_ms
    member.session_timeout_ms = replaced.old_session_timeout_ms
    if replaced.old_owner:
        group.account.owned_by((group.id, replaced.old_member_id), replaced.old_owner)
    group.rename(member, replaced.old_member_id)
    operation.expect_heartbeat(member)


# -- end of the group


def close(operation: GroupOperation, code: ErrorCode) -> None:
    """Closes a deleted or abandoned group: answers all waiting requests and cancels all timers."""
    group = operation.group
    respond_to_all(operation, code)
    for member_id in (*group.members, *group.pending):
        operation.timers.cancel(TimerKey(Timer.SESSION, group.id, member_id))
    operation.cancel_timer(ClassicTimer.JOIN)
    operation.cancel_timer(ClassicTimer.SYNC)
    group.release()
    group.transition(S.DEAD, operation.at.now_ms)


def respond_to_all(operation: GroupOperation, code: ErrorCode) -> None:
    """Refuses all waiting requests of members."""
    for member in operation.group.members.values():
        operation.respond_to_join(member, join_error(code, member.id))
        operation.respond_to_sync(member, sync_error(code))
