"""Timers of consumer groups that expire together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.broker.groups.driver import Driver
from trimaran.broker.groups import memory
from trimaran.broker.groups.consumer import assigning
from trimaran.broker.groups.heartbeating import assigning as heartbeating
from trimaran.broker.groups.heartbeating.operation import HeartbeatTimer
from trimaran.broker.groups.outputs import TimerKey
from trimaran.wire.errors import ErrorCode
from trimaran.wire.records.consumer_groups import ConsumerGroupTargetAssignmentMemberKey


@pytest.fixture
def driver():
    return Driver()


def members(driver, group):
    return set(driver.shard.store.of("consumer")[group].members)


def test_due_work_of_other_groups_is_not_delayed(driver):
    for group in "g", "h":
        driver.consumer_heartbeat("a", group=group)
    driver.join("classic", group="i")
    assert driver.groups["i"].pending
    assert driver.advance(45) == [10.0, 45.0]
    assert members(driver, "g") == members(driver, "h") == set()


def test_group_is_reexamined_after_its_write(driver):
    for name in "a", "b":
        driver.consumer_heartbeat(name)
    epoch = driver.shard.store.of("consumer")["g"].epoch
    assert driver.advance(45) == [45.0, 45.0]
    assert members(driver, "g") == set()
    assert driver.shard.store.of("consumer")["g"].epoch == epoch + 2


def test_each_group_has_a_wakeup_of_its_own():
    driver = Driver()
    driver.settings = replace(driver.settings, assignment_interval_ms=1_000)
    for group in "g", "h":
        for name in "a", "b":
            driver.consumer_heartbeat(name, group=group)
    assert TimerKey(HeartbeatTimer.TARGET, "g") in driver.shard._timers
    assert driver.advance(1) == [1.0, 1.0]
    for group in "g", "h":
        found = driver.shard.store.of("consumer")[group]
        assert found.assignment_epoch == found.epoch


def behind(driver, group="g"):
    found = driver.shard.store.of("consumer")[group]
    return found.epoch - found.assignment_epoch


def test_abandoned_group_gets_no_target():
    driver = Driver()
    driver.settings = replace(driver.settings, assignment_interval_ms=1_000)
    for name in "a", "b":
        driver.consumer_heartbeat(name)
    assert behind(driver) == 1
    for name in "a", "b":
        driver.consumer_heartbeat(name, -1)
    written = len(driver.log)
    assert driver.advance(1) == [1.0]
    assert len(driver.log) == written


def test_longer_interval_counts_from_last_target():
    driver = Driver()
    driver.settings = replace(driver.settings, assignment_interval_ms=1_000)
    for name in "a", "b":
        driver.consumer_heartbeat(name)
    driver.settings = replace(driver.settings, assignment_interval_ms=3_000)
    assert driver.advance(2) == [1.0]
    assert behind(driver) == 1
    assert driver.advance(1) == [3.0]
    assert behind(driver) == 0


@pytest.fixture
def every_group_is_large(monkeypatch):
    monkeypatch.setattr(assigning, "INLINE_SIZE_MAX", -1)


def test_large_target_is_computed_in_pieces(driver, every_group_is_large):
    for name in "a", "b":
        driver.consumer_heartbeat(name)
    assert behind(driver)
    # begun, computed, written, ended
    assert driver.advance(0) == [0.0] * 4
    assert behind(driver) == 0
    assert set(driver.shard.store.of("consumer")["g"].target) == {"a", "b"}


def test_unwritten_large_target_is_written_later(driver, every_group_is_large):
    for name in "a", "b":
        driver.consumer_heartbeat(name)
    driver.failing = ErrorCode.NOT_ENOUGH_REPLICAS
    # Begun, computed, then failed: it is retried once a second, not continuously.
    assert driver.advance(2.5) == [0.0] * 3 + [1.0] * 3 + [2.0] * 3
    assert behind(driver)
    driver.failing = None
    driver.advance(1)
    assert behind(driver) == 0
    assert set(driver.shard.store.of("consumer")["g"].target) == {"a", "b"}


def test_input_of_large_target_comes_in_pieces(driver, monkeypatch):
    driver.consumer_heartbeat("a")
    group = driver.shard.store.of("consumer")["g"].draft()
    one = group.members["a"]
    group.members = group.members.update({f"m{n}": replace(one, id=f"m{n}") for n in range(100)})
    monkeypatch.setattr(assigning, "PIECE", 10)
    assert sum(1 for _ in assigning._input(group, driver.topics)) == 10


def test_group_changed_during_large_target_gets_next(driver, every_group_is_large):
    for name in "a", "b":
        driver.consumer_heartbeat(name)
    driver.shard.handle_timeout(driver.at)
    driver.settle()
    driver.consumer_heartbeat("c")
    assert behind(driver)
    driver.advance(0)
    assert behind(driver) == 0
    assert set(driver.shard.store.of("consumer")["g"].target) == {"a", "b", "c"}


def test_large_target_waits_for_its_interval(every_group_is_large):
    driver = Driver()
    driver.settings = replace(driver.settings, assignment_interval_ms=1_000)
    driver.consumer_heartbeat("a")
    assert driver.advance(0) == [0.0] * 4
    driver.consumer_heartbeat("b")
    assert driver.advance(0.9) == []
    driver.settings = replace(driver.settings, assignment_interval_ms=2_000)
    assert driver.advance(0.2) == [1.0]
    assert driver.advance(1) == [2.0] * 4
    assert behind(driver) == 0


def test_member_joining_large_group_gets_an_epoch(driver, every_group_is_large):
    response = driver.consumer_heartbeat("a")
    assert not isinstance(response, ErrorCode)
    found = driver.shard.store.of("consumer")["g"]
    assert response.member_epoch == found.assignment_epoch == 1
    assert found.assignment_timestamp_ms == 0
    assert behind(driver) == 1


def test_emptied_large_group_gets_no_target(driver, every_group_is_large):
    driver.consumer_heartbeat("a")
    driver.consumer_heartbeat("a", -1)
    written = len(driver.log)
    assert driver.advance(0) == [0.0]
    assert len(driver.log) == written


def test_target_being_computed_delays_the_next(driver, monkeypatch):
    monkeypatch.setattr(assigning, "INLINE_SIZE_MAX", -1)
    for name in "a", "b":
        driver.consumer_heartbeat(name)
    driver.shard.handle_timeout(driver.at)
    driver.settle()
    monkeypatch.undo()
    before = driver.shard.store.of("consumer")["g"].assignment_epoch
    driver.consumer_heartbeat("c")
    assert driver.shard.store.of("consumer")["g"].assignment_epoch == before
    driver.advance(0)
    assert behind(driver) == 0


def test_target_is_written_in_bounded_ticks(driver, every_group_is_large, monkeypatch):
    """`t` has 4 partitions, 2 for each member: then 1 for each of four."""
    for name in "a", "b":
        driver.consumer_heartbeat(name)
    monkeypatch.setattr(heartbeating, "ASSIGNED_PER_TICK", 1)
    # begun, computed, written one member at a time, ended
    assert driver.advance(0) == [0.0] * 5
    driver.consumer_heartbeat("c")
    driver.consumer_heartbeat("d")
    monkeypatch.setattr(heartbeating, "ASSIGNED_PER_TICK", 3)
    assert driver.advance(0) == [0.0] * 4


def test_unchanged_target_is_not_written_again(driver):
    driver.consumer_heartbeat("a")
    written = len(driver.log)
    driver.consumer_heartbeat("b", topics=["none"])
    values = [record.key for record in driver.log[written:]]
    assigned = [
        key.member_id for key in values if isinstance(key, ConsumerGroupTargetAssignmentMemberKey)
    ]
    assert assigned == ["b"]


def test_early_target_needs_no_timer():
    driver = Driver()
    driver.settings = replace(driver.settings, assignment_interval_ms=1_000)
    for name in "a", "b":
        driver.consumer_heartbeat(name)
    assert TimerKey(HeartbeatTimer.TARGET, "g") in driver.shard._timers
    driver.settings = replace(driver.settings, assignment_interval_ms=0)
    driver.consumer_heartbeat("c")
    assert behind(driver) == 0
    assert TimerKey(HeartbeatTimer.TARGET, "g") not in driver.shard._timers


def test_target_from_future_clock_is_not_awaited():
    ahead = Driver(now=3_600)
    ahead.settings = replace(ahead.settings, assignment_interval_ms=1_000)
    ahead.consumer_heartbeat("a")
    driver = Driver(log=ahead.log, settings=ahead.settings)
    driver.consumer_heartbeat("b")
    assert behind(driver) == 0


@pytest.mark.parametrize("size", [0, 200_000])
def test_static_member_expires_despite_refused_replacement(driver, monkeypatch, size):
    """A refusal may also come after its place was given away: its partitions are not held forever."""
    driver.consumer_heartbeat("a", instance="i")
    driver.consumer_heartbeat("a", -2, instance="i")
    monkeypatch.setattr(memory, "GROUPS_BYTES_MAX", 100_000)
    refusal = driver.consumer_heartbeat(
        "b", instance="i", topics=["t" * size], regex=None if size else "("
    )
    assert refusal == (
        ErrorCode.GROUP_MAX_SIZE_REACHED if size else ErrorCode.INVALID_REGULAR_EXPRESSION
    )
    assert members(driver, "g") == {"a"}
    driver.advance(45)
    assert members(driver, "g") == set()


def static_of_a_classic_group(driver):
    driver.join("j", instance="i", session_ms=30_000)
    driver.advance(3)
    answer = driver.answers["j"]
    driver.sync("s", answer.member_id, answer.generation_id, {answer.member_id: b""}, instance="i")
    assert driver.heartbeat(answer.member_id, answer.generation_id, instance="i") == 0


def test_classic_static_member_expires_despite_refused_upgrade(driver):
    static_of_a_classic_group(driver)
    assert (
        driver.consumer_heartbeat("b", instance="i", regex="(")
        == ErrorCode.INVALID_REGULAR_EXPRESSION
    )
    driver.advance(30)
    assert not driver.groups["g"].members


def test_classic_static_member_expires_despite_unwritten_upgrade(
    driver,
):
    static_of_a_classic_group(driver)
    driver.failing = ErrorCode.NOT_ENOUGH_REPLICAS
    assert driver.consumer_heartbeat("b", instance="i") == ErrorCode.NOT_ENOUGH_REPLICAS
    driver.failing = None
    driver.advance(30)
    assert not driver.groups["g"].members
