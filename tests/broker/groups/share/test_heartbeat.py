"""The assignment in responses to heartbeats, if earlier responses are lost."""

from __future__ import annotations

import pytest

from tests.broker.groups.driver import FakeTopics, topic_id
from tests.broker.groups.share.driver import ShareDriver
from trimaran.broker.groups.share import assigning, heartbeat
from trimaran.broker.groups.share.settings import ShareGroupSettings
from trimaran.broker.groups.topics import metadata_hash

T, U = topic_id("t"), topic_id("u")


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


def test_late_heartbeat_repeats_the_revocation(driver):
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


def test_revocation_without_new_epoch_is_repeated(driver):
    driver.topics.set("u", 1)
    driver.beat("a", topics=["t", "u"])
    driver.initialize()
    assert told(driver.beat("a", 2)) == (3, {T: [0, 1], U: [0]})
    assert told(driver.beat("a", 3)) == (3, None)
    driver.share_settings = ShareGroupSettings(assignment_interval_ms=60_000)
    driver.topics.set("u", 0)
    assert told(driver.beat("a", 3)) == (3, {T: [0, 1]})  # late: the target has to wait
    assert told(driver.beat("a", 3)) == (3, {T: [0, 1]})
    assert told(driver.beat("a", 3)) == (3, None)


def test_unconfirmed_revocation_is_forgotten_with_member(driver):
    driver.topics.set("u", 1)
    driver.beat("a", topics=["t", "u"])
    driver.initialize()
    driver.beat("a", 2)
    driver.share_settings = ShareGroupSettings(assignment_interval_ms=60_000)
    assert told(driver.beat("a", 3, topics=["t"])) == (3, {T: [0, 1]})
    work = driver.shares.operation(driver.group(), driver.at).work
    assert work.unconfirmed == {"a"}
    driver.beat("a", -1)
    assert work.unconfirmed == set()


def test_deleted_topic_increments_the_epoch_once(driver):
    driver.topics.set("u", 1)
    driver.beat("a", topics=["t", "u"])
    driver.initialize()
    driver.beat("a", 2)
    driver.topics.set("u", 0)
    epochs = [driver.beat("a", epoch).member_epoch for epoch in (3, 4, 4)]
    assert U in driver.group().known_states.topic_ids  # not yet removed by `of_gone_topics`
    assert epochs == [4, 4, 4]


def test_topics_are_hashed_once_for_each_version(monkeypatch):
    """A heartbeat is quick: the hash of a large group takes milliseconds."""
    driver = ShareDriver(topics=FakeTopics(t=1, u=1))
    driver.beat("a")
    driver.initialize()
    driver.beat("a", driver.group().members["a"].epoch)
    hashed = []

    def noted(names, topics):
        hashed.append(topics.version)
        return metadata_hash(names, topics)

    monkeypatch.setattr(heartbeat, "metadata_hash", noted)
    versions = []
    for partitions in (1, 2, 3):
        driver.topics.set("u", partitions)
        versions.append(driver.topics.version)
        for _ in range(4):
            driver.beat("a", driver.group().members["a"].epoch)
    assert hashed == versions


def test_target_is_compared_once_until_it_changes(monkeypatch):
    """The comparison visits each partition of each member."""
    driver = ShareDriver(topics=FakeTopics(t=1))
    driver.beat("a")
    driver.initialize()
    driver.beat("a", driver.group().members["a"].epoch)
    compared, is_pending = [], assigning._is_pending

    def noted(group, *topics):
        compared.append(group.target)
        return is_pending(group, *topics)

    monkeypatch.setattr(assigning, "_is_pending", noted)
    for member_id in "aaabbb":
        member = driver.group().members.get(member_id)
        driver.beat(member_id, 0 if member is None else member.epoch)
    first, second = compared
    assert first is not second
