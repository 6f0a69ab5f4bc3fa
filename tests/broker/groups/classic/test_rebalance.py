"""The responses, timers and writes of each end of a phase, in their order and with all their fields."""

from __future__ import annotations

import pytest

from tests.broker.groups.classic.test_group import member
from trimaran.broker.coordination.shard import Effects
from trimaran.broker.coordination.timers import Instant, Timers
from trimaran.broker.groups.classic import rebalance
from trimaran.broker.groups.classic.group import ClassicGroup, GroupState
from trimaran.broker.groups.classic.operation import ClassicTimer, GroupOperation
from trimaran.broker.groups.limits import GroupLimits
from trimaran.broker.groups.outputs import Timer, TimerKey
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from trimaran.wire.messages.sync_group import SyncGroupResponse

E, S = ErrorCode, GroupState
NOW = Instant(5.0, 77)


@pytest.fixture
def operation():
    """An input to a group of two members that wait for both of their requests, and a third that waits for none."""
    group = ClassicGroup("g", 0)
    for name in "ab":
        group.add(member(name, token=f"join {name}", sync=f"sync {name}"))
    group.add(member("c"))
    group.generation = 3
    group.protocol_type, group.protocol_name = "consumer", "range"
    group.state = S.COMPLETING_REBALANCE
    timers = Timers()
    for name in "abcp":
        timers.set(TimerKey(Timer.SESSION, "g", name), 1.0)
    for kind in (ClassicTimer.JOIN, ClassicTimer.SYNC):
        timers.set(TimerKey(kind, "g"), 1.0)
    group.pending.add("p")
    return GroupOperation(group, NOW, timers, GroupLimits(), Effects())


def deadlines(operation):
    """The deadlines by the kind of their timer and member."""
    found = {}
    while (deadline := operation.timers.earliest()) is not None:
        key = operation.timers.pop_due(deadline)
        assert key.group_id == "g"
        found[f"{key.kind} {key.member_id}".strip()] = deadline
    return found


def test_members_without_sync_are_named_in_order(operation, caplog):
    caplog.set_level("INFO")
    operation.group.awaiting_sync = {"a", "b", "c"}
    rebalance.sync_expired(operation)
    assert "a, b, c did not sync in time" in caplog.text


def refused_join(code, member_id=""):
    return JoinGroupResponse(
        throttle_time_ms=0,
        error_code=code,
        generation_id=-1,
        protocol_type=None,
        protocol_name=None,
        leader="",
        skip_assignment=False,
        member_id=member_id,
        members=[],
    )


def refused_sync(code):
    return SyncGroupResponse(
        throttle_time_ms=0, error_code=code, protocol_type=None, protocol_name=None, assignment=b""
    )


def synced(assignment):
    return SyncGroupResponse(
        throttle_time_ms=0,
        error_code=E.NONE,
        protocol_type="consumer",
        protocol_name="range",
        assignment=assignment,
    )


def test_closed_group_answers_members_in_order(operation):
    rebalance.close(operation, E.NOT_COORDINATOR)
    assert operation.effects == Effects(
        responses=[
            ("join a", refused_join(E.NOT_COORDINATOR, "a")),
            ("sync a", refused_sync(E.NOT_COORDINATOR)),
            ("join b", refused_join(E.NOT_COORDINATOR, "b")),
            ("sync b", refused_sync(E.NOT_COORDINATOR)),
        ]
    )
    assert deadlines(operation) == {}
    assert (operation.group.state, operation.group.state_timestamp_ms) == (S.DEAD, 77)


def test_dropped_member_gets_both_answers_in_order(operation):
    assert rebalance.drop(operation, "b").id == "b"
    assert rebalance.drop(operation, "p") is None
    assert operation.effects == Effects(
        responses=[
            ("join b", refused_join(E.UNKNOWN_MEMBER_ID)),
            ("sync b", refused_sync(E.UNKNOWN_MEMBER_ID)),
        ]
    )
    assert list(operation.group.members) == ["a", "c"]
    assert operation.group.pending == set()
    assert deadlines(operation) == {"session a": 1.0, "session c": 1.0, "join": 1.0, "sync": 1.0}


def test_discarded_assignment_is_reported_to_waiting_members(operation):
    group = operation.group
    group.storing_generation = 3
    for group_member in group.members.values():
        group.set_assignment(group_member, b"old")
    rebalance.reset_assignments(operation, E.REBALANCE_IN_PROGRESS)
    assert operation.effects == Effects(
        responses=[(f"sync {name}", refused_sync(E.REBALANCE_IN_PROGRESS)) for name in "ab"]
    )
    assert [member.assignment for member in group.members.values()] == [b"", b"", b""]
    assert [member.join for member in group.members.values()] == [
        "join a",
        "join b",
        None,
    ]
    assert (group.storing_generation, group.state) == (None, S.COMPLETING_REBALANCE)
    assert deadlines(operation) == {
        "session a": 15.0,
        "session b": 15.0,
        "session c": 1.0,
        "session p": 1.0,
        "join": 1.0,
        "sync": 1.0,
    }


def test_committed_assignment_reaches_members_in_order(operation):
    group = operation.group
    group.storing_generation = 3
    rebalance.assign(operation, {"b": b"2", "c": b"3", "x": b"4"})
    assert operation.effects == Effects(
        responses=[("sync a", synced(b"")), ("sync b", synced(b"2"))]
    )
    assert [member.assignment for member in group.members.values()] == [b"", b"2", b"3"]
    assert (group.state, group.state_timestamp_ms) == (S.STABLE, 77)
    assert group.storing_generation is None
    found = deadlines(operation)
    assert (found["session a"], found["session b"], found["session c"]) == (15.0, 15.0, 1.0)


def test_new_generation_answers_members_in_order(operation):
    """A member that has not joined is removed, and an abandoned one gets no new session."""
    group = operation.group
    group.state = S.PREPARING_REBALANCE
    group.members["b"].is_abandoned = True
    for group_member in group.members.values():
        group_member.sync = None
        group_member.is_new = True
    rebalance.complete_join(operation)
    joined = JoinGroupResponse(
        throttle_time_ms=0,
        error_code=E.NONE,
        generation_id=4,
        protocol_type="consumer",
        protocol_name="range",
        leader="a",
        skip_assignment=False,
        member_id="b",
        members=[],
    )
    leader = JoinGroupResponse(
        throttle_time_ms=0,
        error_code=E.NONE,
        generation_id=4,
        protocol_type="consumer",
        protocol_name="range",
        leader="a",
        skip_assignment=False,
        member_id="a",
        members=[
            JoinGroupResponseMember(member_id=name, group_instance_id=None, metadata=b"123")
            for name in "ab"
        ],
    )
    assert operation.effects == Effects(responses=[("join a", leader), ("join b", joined)])
    assert group.awaiting_sync == {"a", "b"}
    assert [member.is_new for member in group.members.values()] == [False, False]
    assert (group.state, group.generation) == (S.COMPLETING_REBALANCE, 4)
    assert deadlines(operation) == {
        "session a": 15.0,
        "session b": 1.0,
        "session p": 1.0,
        "sync": 6.0,
    }
