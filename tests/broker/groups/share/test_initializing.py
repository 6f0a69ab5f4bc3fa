"""The initialization of share partitions, as members of the group notice it."""

from __future__ import annotations

import pytest

from tests.broker.groups.driver import FakeTopics, topic_id
from tests.broker.groups.share.driver import ShareDriver
from tests.broker.groups.share.test_offsets import alter, asked, finish, named
from trimaran.broker.groups.heartbeating.settings import reconciling_interval_ms

T, U = topic_id("t"), topic_id("u")


@pytest.fixture
def driver():
    return ShareDriver(topics=FakeTopics(t=1, u=1))


def beat(driver, member_id="a", topics=None):
    """Sends the next heartbeat of a member; returns the response."""
    return driver.beat(member_id, driver.group().members[member_id].epoch, topics=topics)


def intervals(driver):
    """Returns the interval of a group without work, and the one of a group that waits."""
    settings = driver.share_settings
    wanted, least = settings.heartbeat_interval_ms, settings.waiting_interval_ms_min
    return wanted, reconciling_interval_ms(len(driver.group().members), wanted, least)


# -- the interval of heartbeats


def test_member_of_failed_topic_is_heard_soon(driver):
    driver.beat("a", topics=["t", "u"])
    driver.initialize(lambda partition: partition.topic_id == U)
    calm, soon = intervals(driver)
    assert calm > soon
    assert beat(driver).heartbeat_interval_ms == soon
    assert driver.group().states.initializing.keys() == {U}
    driver.initialize()
    assert beat(driver).heartbeat_interval_ms == calm


def test_failed_topic_without_subscription_delays_nothing(driver):
    driver.beat("a", topics=["t", "u"])
    driver.beat("b", topics=["t", "u"])
    driver.initialize(lambda partition: partition.topic_id == U)
    beat(driver, "a", ["t"])
    beat(driver, "b")
    calm, soon = intervals(driver)
    assert beat(driver, "b").heartbeat_interval_ms == soon  # still a subscriber
    driver.initialize(lambda partition: partition.topic_id == U)
    beat(driver, "b", ["t"])
    beat(driver, "a")
    assert driver.group().states.initializing.keys() == {U}
    assert [beat(driver, name).heartbeat_interval_ms for name in "ab"] == [calm, calm]


def test_failed_alteration_of_another_topic_delays_nothing(driver):
    alter(driver, asked("u", p0=3))
    finish(driver, failed=named(U, 0))
    driver.beat("a")
    driver.initialize()
    beat(driver)
    assert driver.group().states.initializing.keys() == {U}
    assert beat(driver).heartbeat_interval_ms == intervals(driver)[0]
