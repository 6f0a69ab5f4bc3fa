"""The assignment in responses to heartbeats, if earlier responses are lost."""

from __future__ import annotations

import pytest

from tests.broker.groups.driver import FakeTopics, topic_id
from tests.broker.groups.share.driver import ShareDriver

T = topic_id("t")


@pytest.fixture
def driver():
    return ShareDriver(topics=FakeTopics(t=2))


def told(response):
    """Returns the epoch of a response, and its assignment, None if it has none."""
    if response.assignment is None:
        return response.member_epoch, None
    topics = response.assignment.topic_partitions
    return response.member_epoch, {topic.topic_id: topic.partitions for topic in topics}


@pytest.mark.parametrize("is_reloaded", [False, True])
def test_late_join_hides_no_assignment(driver, is_reloaded):
    assert told(driver.beat("a")) == (2, {})
    driver.initialize()
    assert told(driver.beat("a")) == (3, {T: [0, 1]})  # late: nothing waits for this response
    if is_reloaded:
        driver = driver.reloaded()
    assert told(driver.beat("a", 2)) == (3, {T: [0, 1]})
    assert told(driver.beat("a", 2)) == (3, {T: [0, 1]})
    assert told(driver.beat("a", 3)) == (3, None)


def test_late_heartbeat_hides_no_loss(driver):
    driver.beat("a")
    driver.initialize()
    assert told(driver.beat("a", 2)) == (3, {T: [0, 1]})
    assert told(driver.beat("b")) == (4, {T: [0]})
    assert told(driver.beat("a", 3)) == (4, {T: [1]})  # late
    assert told(driver.beat("a", 3)) == (4, {T: [1]})
    assert told(driver.beat("a", 4)) == (4, None)


def test_previous_epoch_repeats_an_unchanged_assignment(driver):
    driver.topics.set("u", 1)
    driver.beat("a")
    driver.initialize()
    driver.beat("a", 2)
    driver.beat("b", topics=["u"])
    assert told(driver.beat("a", 3)) == (4, None)
    assert told(driver.beat("a", 3)) == (4, {T: [0, 1]})
    assert told(driver.beat("a", 4)) == (4, None)
