"""Sessions, revocations, the delays of a target, failed writes, and groups that change their kind."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.broker.groups.streams.driver import (
    StreamsDriver,
    statuses,
    subtopology,
    task_ids,
    topology,
)
from trimaran.broker.groups import memory
from trimaran.broker.groups.heartbeating.operation import HeartbeatTimer
from trimaran.broker.groups.outputs import TimerKey
from trimaran.broker.groups.streams import assigning
from trimaran.broker.groups.streams.configuring import Status
from trimaran.broker.groups.streams.group import StreamsGroupState
from trimaran.broker.groups.streams.member import StreamsMemberState
from trimaran.broker.groups.streams.operation import StreamsTimer
from trimaran.broker.groups.streams.settings import StreamsGroupSettings
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity

DELAYS = StreamsGroupSettings(initial_rebalance_delay_ms=3_000, assignment_interval_ms=1_000)


@pytest.fixture
def driver():
    return StreamsDriver()


# -- members that do not come back


def test_session_ends_after_its_timeout(driver):
    driver.beat("a")
    driver.beat("b")
    driver.advance(44.999)
    driver.beat("b", 3)
    assert sorted(driver.group.members) == ["a", "b"]
    driver.advance(0.001)
    assert sorted(driver.group.members) == ["b"]
    driver.settled_beats("b")
    assert driver.active() == {"b": {"0": [0, 1, 2, 3]}}


def test_absent_static_member_is_removed_with_its_session(driver):
    driver.beat("a", instance_id="i")
    driver.beat("a", -2, instance_id="i")
    driver.advance(45)
    assert driver.group.state is StreamsGroupState.EMPTY


def test_session_of_a_replaced_member_ends(driver):
    driver.beat("a", instance_id="i")
    driver.beat("a", -2, instance_id="i")
    driver.beat("a2", instance_id="i")
    epoch = driver.group.members["a2"].epoch
    driver.advance(30)
    driver.beat("a2", epoch)
    assert driver.advance(20) == []  # nothing is due for the previous incarnation


def test_member_must_give_up_tasks_in_time(driver):
    driver.beat("a", rebalance_timeout_ms=10_000)
    driver.beat("b")
    driver.beat("a", 2)
    assert driver.group.members["a"].state is StreamsMemberState.UNREVOKED_TASKS
    driver.advance(9.999)
    driver.beat("a", 2)
    assert "a" in driver.group.members
    driver.advance(0.001)
    assert sorted(driver.group.members) == ["b"]


def test_member_that_gave_up_its_tasks_stays(driver):
    driver.beat("a", rebalance_timeout_ms=10_000)
    driver.beat("b")
    driver.beat("a", 2)
    driver.beat("a", 2, owned=({"0": [0, 1]}, {}))
    driver.advance(11)
    assert sorted(driver.group.members) == ["a", "b"]


def test_loaded_members_get_whole_timeouts(driver):
    driver.beat("a", rebalance_timeout_ms=10_000)
    driver.beat("b")
    driver.beat("a", 2)
    driver.advance(9)
    later = driver.reloaded()
    later.advance(9.999)
    assert sorted(later.group.members) == ["a", "b"]
    later.advance(0.001)
    assert sorted(later.group.members) == ["b"]
    later.advance(35)
    assert later.group.is_empty


# -- delays of the target


def test_first_target_waits_for_more_members():
    driver = StreamsDriver(DELAYS)
    first = driver.beat("a")
    assert statuses(first) == [Status.ASSIGNMENT_DELAYED]
    assert (first.response.member_epoch, first.response.active_tasks) == (1, [])
    driver.advance(1)
    assert statuses(driver.beat("b")) == [Status.ASSIGNMENT_DELAYED]
    driver.advance(1.999)
    assert driver.group.assignment_epoch == 1
    driver.advance(0.001)
    assert driver.group.assignment_epoch == 3
    assert statuses(driver.beat("a", 1)) == []
    assert driver.beat("b", 1).response.active_tasks == task_ids({"0": [1, 3]})


def test_empty_group_has_no_delayed_target():
    driver = StreamsDriver(DELAYS)
    driver.beat("a")
    driver.beat("a", -1)
    before = len(driver.log)
    driver.advance(3)
    assert len(driver.log) == before


def test_targets_keep_their_interval():
    driver = StreamsDriver(replace(DELAYS, initial_rebalance_delay_ms=0))
    driver.beat("a")
    driver.advance(0.999)
    late = driver.beat("b")
    assert statuses(late) == [Status.ASSIGNMENT_DELAYED]
    assert driver.group.assignment_epoch == 2
    driver.advance(0.001)
    assert statuses(driver.beat("b", late.response.member_epoch)) == []
    assert driver.group.assignment_epoch == 3


def test_large_target_is_computed_in_pieces(driver):
    driver.topics.set("t", assigning.INLINE_SIZE_MAX)
    answer = driver.beat("a")
    assert statuses(answer) == [Status.ASSIGNMENT_DELAYED]
    assert (answer.response.member_epoch, len(driver.group.target)) == (1, 0)
    driver.advance(0)
    assert driver.group.assignment_epoch == 2
    later = driver.beat("a", 1)
    assert statuses(later) == []
    assert later.response.active_tasks == task_ids({"0": range(assigning.INLINE_SIZE_MAX)})


def test_members_may_leave_while_the_target_is_computed(driver):
    driver.topics.set("t", assigning.INLINE_SIZE_MAX)
    driver.beat("a")
    driver.beat("b")
    driver.beat("a", -1)
    driver.advance(0)
    driver.settled_beats("b")
    driver.advance(0)
    driver.settled_beats("b")
    assert len(driver.active()["b"]["0"]) == assigning.INLINE_SIZE_MAX


# -- writes that fail


def test_topics_are_checked_again_after_a_failed_write(driver):
    driver.beat("a")
    driver.topics.set("t", 6)
    driver.failing = ErrorCode.COORDINATOR_NOT_AVAILABLE
    driver.beat("a", 2)
    driver.failing = None
    assert driver.beat("a", 2).response.active_tasks == task_ids({"0": range(6)})


def test_leaving_member_stays_until_it_is_written(driver):
    driver.beat("a")
    driver.failing = ErrorCode.COORDINATOR_NOT_AVAILABLE
    driver.beat("a", -1)
    driver.failing = None
    assert "a" in driver.group.members
    driver.advance(45)
    assert driver.group.is_empty


def test_group_that_was_never_written_leaves_nothing(driver):
    driver.failing = ErrorCode.COORDINATOR_NOT_AVAILABLE
    driver.beat("a", offsets={"0": {0: 1}})
    driver.failing = None
    assert (driver.streams._works, driver.shard.account.bytes) == ({}, 0)
    driver.advance(60)
    assert driver.log == []


def test_failed_write_of_a_timer_is_tried_again(driver):
    driver.beat("a")
    driver.failing = ErrorCode.COORDINATOR_NOT_AVAILABLE
    driver.advance(45)
    assert "a" in driver.group.members
    driver.failing = None
    driver.advance(45)
    assert driver.group.is_empty


# -- kinds


def test_empty_classic_group_becomes_a_streams_group(driver):
    driver.join("t1", "")
    member_id = driver.answers.pop("t1").member_id
    driver.join("t2", member_id)
    assert driver.beat("a") is ErrorCode.GROUP_ID_NOT_FOUND
    driver.advance(3)
    driver.shard.leave(_leaving(member_id), 3, driver.at)
    driver.settle()
    assert driver.beat("a").response.member_epoch == 2
    assert driver.shard.list_groups(["g"], [], [])[0].group_type == "streams"
    assert not driver.reloaded().groups


def _leaving(member_id):
    return LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=member_id)])


def test_classic_group_replaces_an_empty_streams_group(driver):
    driver.beat("a")
    driver.join("t1", "")
    assert driver.answers.pop("t1").error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    driver.beat("a", -1)
    driver.join("t2", "")
    assert driver.answers.pop("t2").error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert not driver.shard.store.of("streams")
    assert driver.streams._works == {}


def test_consumers_may_not_join_a_streams_group(driver):
    driver.beat("a")
    driver.beat("a", -1)
    assert driver.consumer_heartbeat("m") is ErrorCode.GROUP_ID_NOT_FOUND
    assert not driver.shard.store.of("consumer")


def test_deleted_group_leaves_nothing(driver):
    stateful = topology(subtopology(changelogs=["c"]))
    driver.beat("a", topology=stateful, offsets={"0": {0: 1}})
    refused = driver.submit(driver.shard.delete_groups(["g"]))
    assert refused == {"g": ErrorCode.NON_EMPTY_GROUP}
    driver.beat("a", -1)
    assert driver.submit(driver.shard.delete_groups(["g"])) == {"g": ErrorCode.NONE}
    assert not driver.shard.store.of("streams")
    assert (driver.streams._works, driver.shard.account.bytes) == ({}, 0)
    assert driver.shard.account.by_principal == {}


def test_new_streams_group_without_room_is_refused(driver, monkeypatch):
    driver.beat("a")
    monkeypatch.setattr(memory, "KNOWN_BYTES_MAX", driver.shard.account.known_bytes)
    assert driver.beat("a", group_id="h") is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert driver.beat("b").response.error_code == 0


def test_forgotten_group_leaves_no_offsets_or_timers(driver):
    stateful = topology(subtopology(changelogs=["c"]))
    before = driver.shard.account.bytes
    driver.beat("a", topology=stateful, offsets={"0": {0: 1, 1: 2}})
    held = driver.group.held_bytes
    timers = [TimerKey(kind, "g") for kind in (HeartbeatTimer.TARGET, StreamsTimer.INITIAL)]
    for key in timers:
        driver.streams._timers.set(key, 9.0)
    assert driver.shard.account.bytes > before + held
    for _ in range(2):
        driver.streams.forget("g")
        assert driver.shard.account.bytes == before + held
        assert driver.streams._works == {}
        assert [key in driver.streams._timers for key in timers] == [False] * 2
