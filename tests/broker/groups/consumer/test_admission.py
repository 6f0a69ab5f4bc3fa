"""Identification of members: static ones and their next incarnations, full groups, missed epochs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.broker.groups.driver import Driver
from trimaran.broker.groups.consumer import admission
from trimaran.broker.groups.heartbeating.operation import HeartbeatTimer
from trimaran.broker.groups.outputs import Timer, TimerKey
from trimaran.wire.errors import ErrorCode


@pytest.fixture
def driver():
    return Driver()


def group_of(driver):
    return driver.shard.store.of("consumer")["g"]


@pytest.mark.parametrize("instance", [None, "i"])
def test_full_group_admits_only_its_own_members(driver, instance):
    driver.settings = replace(driver.settings, members_max=2)
    driver.consumer_heartbeat("a")
    epoch = driver.consumer_heartbeat("b", instance=instance).member_epoch
    assert driver.consumer_heartbeat("c") is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert driver.consumer_heartbeat("c", instance="j") is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert driver.consumer_heartbeat("b", epoch, instance=instance).member_epoch == epoch
    assert driver.consumer_heartbeat("b", instance=instance).member_epoch == epoch
    assert set(group_of(driver).members) == {"a", "b"}


def test_full_group_admits_returning_static_member(driver):
    driver.settings = replace(driver.settings, members_max=2)
    driver.consumer_heartbeat("a")
    epoch = driver.consumer_heartbeat("b", instance="i").member_epoch
    driver.consumer_heartbeat("b", -2, instance="i")
    assert driver.consumer_heartbeat("d", instance="i").member_epoch == epoch
    assert set(group_of(driver).members) == {"a", "d"}


def test_full_group_admits_no_more_members(driver, monkeypatch):
    driver.consumer_heartbeat("a", topics=["t" * 100])
    monkeypatch.setattr(admission, "GROUP_BYTES_MAX", 100)
    driver.consumer_heartbeat("b", topics=["t"])
    assert group_of(driver).bytes == 101
    assert driver.consumer_heartbeat("c", topics=["t"]) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert set(group_of(driver).members) == {"a", "b"}


def test_unknown_member_that_does_not_join_is_refused(driver):
    driver.consumer_heartbeat("a")
    assert driver.consumer_heartbeat("b", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.consumer_heartbeat("b", 1, instance="i") is ErrorCode.UNKNOWN_MEMBER_ID


# -- static members


def test_static_member_without_join_answer_rejoins(driver):
    first = driver.consumer_heartbeat("a", instance="i")
    again = driver.consumer_heartbeat("a", instance="i")
    assert again.member_epoch == first.member_epoch
    assert again.assignment == first.assignment
    assert group_of(driver).epoch == 2


def test_static_member_returns_under_its_own_id(driver):
    epoch = driver.consumer_heartbeat("a", instance="i").member_epoch
    driver.consumer_heartbeat("a", -2, instance="i")
    back = driver.consumer_heartbeat("a", instance="i")
    assert back.member_epoch == epoch
    assert group_of(driver).members["a"].epoch == epoch
    assert group_of(driver).epoch == epoch


def test_next_incarnation_takes_assignment_and_session(driver):
    driver.consumer_heartbeat("a", instance="i")
    driver.consumer_heartbeat("a", -2, instance="i")
    epoch = group_of(driver).epoch
    driver.consumer_heartbeat("b", instance="i", client="another")
    assert group_of(driver).epoch == epoch  # no other member is affected
    timers = driver.shard._timers
    assert TimerKey(Timer.SESSION, "g", "a") not in timers
    assert TimerKey(Timer.SESSION, "g", "b") in timers
    after = driver.replayed().of("consumer")["g"]
    assert set(after.members) == set(after.target) == {"b"}
    assert {topic: set(owned) for topic, owned in after.members["b"].assigned.items()} == {
        topic: set(owned) for topic, owned in after.target["b"].items()
    }


def test_next_incarnation_with_same_pattern_changes_nothing(driver):
    driver.consumer_heartbeat("a", instance="i", regex="t.*")
    driver.consumer_heartbeat("a", -2, instance="i")
    epoch = group_of(driver).epoch
    driver.consumer_heartbeat("b", instance="i", regex="t.*", client="another")
    assert group_of(driver).epoch == epoch


def test_leave_applies_to_current_holder_of_name(driver):
    driver.consumer_heartbeat("a", instance="i")
    assert driver.consumer_heartbeat("a", -1, instance="j") is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.consumer_heartbeat("b", -1, instance="i") is ErrorCode.FENCED_INSTANCE_ID
    assert driver.consumer_heartbeat("b", -2, instance="i") is ErrorCode.FENCED_INSTANCE_ID
    assert driver.consumer_heartbeat("a", -1, instance="i").heartbeat_interval_ms == 0
    assert not group_of(driver).members


def test_temporarily_absent_member_revokes_nothing(driver):
    driver.consumer_heartbeat("a", instance="i")
    driver.consumer_heartbeat("z")
    driver.consumer_heartbeat("a", 2, instance="i")
    revoking = TimerKey(HeartbeatTimer.REVOCATION, "g", "a")
    assert revoking in driver.shard._timers
    driver.consumer_heartbeat("a", -2, instance="i")
    assert revoking not in driver.shard._timers
    assert not group_of(driver).members["a"].revoking


def test_incarnations_assignment_is_logged_without_news(driver):
    """Otherwise a coordinator that takes over between the two would assign its partitions to others."""
    driver.consumer_heartbeat("a", instance="i")
    other = driver.consumer_heartbeat("z").member_epoch
    driver.consumer_heartbeat("a", 2, instance="i", owned={"t": [0, 1]})
    driver.consumer_heartbeat("a", -2, instance="i")
    driver.consumer_heartbeat("b", instance="i")
    found = driver.replayed().of("consumer")["g"].members["b"]
    assert found.epoch == other
    # Each partition with the epoch in which it was assigned (KIP-1251).
    assert [dict(owned) for owned in found.assigned.values()] == [{0: 2, 1: 2}]


def test_living_classic_members_name_is_taken_over(driver):
    """A classic member cannot leave temporarily."""
    driver.consumer_heartbeat("z")
    driver.join("old", version=5, instance="i")
    driver.consumer_heartbeat("b", instance="i")
    assert set(group_of(driver).members) == {"b", "z"}
    assert group_of(driver).classic_count == 0


def test_absent_member_must_join_to_return(driver):
    """The epoch before its last one is not a response that it missed."""
    driver.consumer_heartbeat("a", instance="i")
    driver.consumer_heartbeat("z")
    driver.consumer_heartbeat("a", 2, instance="i", owned={"t": [0, 1]})
    assert group_of(driver).members["a"].previous_epoch == 2
    driver.consumer_heartbeat("a", -2, instance="i")
    back = driver.consumer_heartbeat("a", 2, instance="i", owned={})
    assert back is ErrorCode.FENCED_MEMBER_EPOCH


def test_old_incarnation_is_fenced_with_any_epoch(driver):
    driver.consumer_heartbeat("a", instance="i")
    driver.consumer_heartbeat("a", -2, instance="i")
    epoch = driver.consumer_heartbeat("b", instance="i").member_epoch
    assert driver.consumer_heartbeat("a", epoch, instance="i") is ErrorCode.FENCED_INSTANCE_ID


# -- epochs


def test_missed_epoch_is_accepted_without_excess_partitions(driver):
    first = driver.consumer_heartbeat("a").member_epoch
    driver.consumer_heartbeat("b")
    driver.consumer_heartbeat("a", first)
    now = driver.consumer_heartbeat("a", first, owned={"t": [0, 1]}).member_epoch
    assert now == first + 1
    more = driver.consumer_heartbeat("a", first, owned={"t": [0, 1, 2]})
    assert more is ErrorCode.FENCED_MEMBER_EPOCH
    assert driver.consumer_heartbeat("a", first) is ErrorCode.FENCED_MEMBER_EPOCH
    assert driver.consumer_heartbeat("a", first, owned={"t": [0, 1]}).member_epoch == now


@pytest.mark.parametrize("off", [1, -1])
def test_no_other_epoch_is_taken(driver, off):
    driver.consumer_heartbeat("a")
    driver.consumer_heartbeat("b")
    driver.consumer_heartbeat("c")
    epoch = driver.consumer_heartbeat("c", 4).member_epoch
    assert driver.consumer_heartbeat("c", epoch + off, owned={}) is ErrorCode.FENCED_MEMBER_EPOCH
