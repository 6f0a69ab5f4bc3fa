"""Timers of consumer groups that are due together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.groups.operation import Timer, TimerKey
from tests.broker.groups.driver import Driver


@pytest.fixture
def driver():
    return Driver()


def members(driver, group):
    return set(driver.shard.store.consumer_groups[group].members)


def test_what_is_due_of_other_groups_waits_for_nobody(driver):
    for group in "g", "h":
        driver.consumer_heartbeat("a", group=group)
    driver.join("classic", group="i")
    assert driver.shard.groups["i"].pending
    assert driver.advance(45) == [10.0, 45.0]
    assert members(driver, "g") == members(driver, "h") == set()


def test_a_group_is_looked_at_again_once_what_came_of_it_is_written(driver):
    for name in "a", "b":
        driver.consumer_heartbeat(name)
    epoch = driver.shard.store.consumer_groups["g"].epoch
    assert driver.advance(45) == [45.0, 45.0]
    assert members(driver, "g") == set()
    assert driver.shard.store.consumer_groups["g"].epoch == epoch + 2


def test_one_piece_of_work_at_a_time():
    driver = Driver()
    driver.settings = replace(driver.settings, assignment_interval_ms=1_000)
    for group in "g", "h":
        for name in "a", "b":
            driver.consumer_heartbeat(name, group=group)
    assert TimerKey(Timer.WORK, "g") in driver.shard._timers
    assert driver.advance(1) == [1.0, 1.0]
    for group in "g", "h":
        found = driver.shard.store.consumer_groups[group]
        assert found.assignment_epoch == found.epoch
