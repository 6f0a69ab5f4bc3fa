"""Rules of consumer groups one by one, each of which no other test would miss."""

from __future__ import annotations

import pytest

from broker.groups.consumer import admission
from broker.groups.consumer.operation import ConsumerGroupWrite
from broker.groups.consumer.settings import RECONCILING_MS
from broker.groups.operation import Timer, TimerKey
from tests.broker.groups.driver import Driver
from wire.errors import ErrorCode
from wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse

T, U = b"t" * 16, b"u" * 16


@pytest.fixture
def driver():
    return Driver()


@pytest.mark.parametrize(
    ("reported", "is_no_more"),
    [
        (None, False),
        ({}, True),
        ({T: {0}}, True),
        ({T: {0, 1}}, True),
        ({T: {0, 2}}, False),
        ({T: {0}, U: {0}}, False),
    ],
)
def test_who_owns_no_more_than_it_should_may_have_missed_its_last_epoch(reported, is_no_more):
    assigned = {T: {0: 1, 1: 1}}
    assert admission._owns_no_more(reported, assigned) is is_no_more


def test_members_come_more_often_until_the_group_has_been_at_rest_for_a_while(driver):
    """Who has reached its target may hear soon of what others gave up."""
    wanted = driver.settings.heartbeat_interval_ms
    answer = driver.consumer_heartbeat("a")
    assert answer.heartbeat_interval_ms < wanted
    driver.advance(RECONCILING_MS / 1000 - 0.1)
    assert driver.consumer_heartbeat("a", answer.member_epoch).heartbeat_interval_ms < wanted
    driver.advance(0.1)
    assert driver.consumer_heartbeat("a", answer.member_epoch).heartbeat_interval_ms == wanted


def test_who_leaves_leaves_no_timer_behind(driver):
    driver.consumer_heartbeat("a")
    driver.consumer_heartbeat("b")
    assert TimerKey(Timer.SESSION, "g", "a") in driver.shard._timers
    driver.consumer_heartbeat("a", -1)
    assert TimerKey(Timer.SESSION, "g", "a") not in driver.shard._timers
    assert TimerKey(Timer.SESSION, "g", "b") in driver.shard._timers


def test_of_a_pattern_that_nobody_has_any_more_nothing_stays_in_the_log(driver):
    answer = driver.consumer_heartbeat("a", regex="t.*")
    assert list(driver.replayed().consumer_groups["g"].regexes) == ["t.*"]
    driver.consumer_heartbeat("a", answer.member_epoch, topics=["t"], regex="")
    assert list(driver.replayed().consumer_groups["g"].regexes) == []


def test_an_answer_without_another_word_for_failures_is_given_all_the_same(driver):
    """Of a timer's write somebody may wait who is told the same whatever becomes of it."""
    response = ConsumerGroupHeartbeatResponse(member_epoch=1, heartbeat_interval_ms=5)
    driver.shard._answer(
        ConsumerGroupWrite("g", (), token="token", response=response), ErrorCode.NONE
    )
    write = ConsumerGroupWrite("g", (), token="late", response=response)
    driver.shard._answer(write, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    driver.settle()
    assert driver.answers["token"] is response
    assert driver.answers["late"] is response
