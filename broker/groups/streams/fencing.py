"""Removes members that leave or time out.

Source: `GroupMetadataManager.streamsGroupFenceMember`.
"""

from __future__ import annotations

from trimaran.broker.groups.heartbeating.operation import HeartbeatTimer
from trimaran.broker.groups.outputs import Timer
from trimaran.broker.groups.streams.member import StreamsMember, StreamsMemberState
from trimaran.broker.groups.streams.operation import StreamsOperation


def remove(operation: StreamsOperation, member: StreamsMember) -> None:
    """Removes a member. The next heartbeat of another member computes the target. A group without members gets an empty
    target at its epoch.
    """
    group = operation.group
    operation.cancel_timers(member.id)
    operation.write_without(member.id)
    operation.bump_epoch()
    if group.is_empty:
        operation.write_assignment_epoch(group.epoch, 0)
        operation.work.target = None
        operation.work.shutdown_by = ""


TIMED_OUT: dict[str, str] = {
    Timer.SESSION: "its session expired",
    HeartbeatTimer.REVOCATION: "it did not give up its tasks in time",
}


def timed_out(operation: StreamsOperation, member_id: str, kind: str) -> None:
    """Removes a member after a timeout."""
    member = operation.group.members.get(member_id)
    if member is None or (
        kind is HeartbeatTimer.REVOCATION and member.state is not StreamsMemberState.UNREVOKED_TASKS
    ):
        return
    operation.note_fenced(member_id, TIMED_OUT[kind])
    remove(operation, member)
