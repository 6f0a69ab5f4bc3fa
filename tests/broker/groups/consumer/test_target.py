"""A group's assignor, and the input that it receives."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.broker.groups.driver import Driver, FakeTopics
from trimaran.broker.groups.consumer.assigning import preferred_assignor, size_of
from trimaran.broker.groups.consumer.records import RECORDS
from trimaran.broker.groups.topics import metadata_hash
from trimaran.wire.errors import ErrorCode


@pytest.fixture
def driver():
    return Driver()


def group_of(driver):
    return driver.shard.store.of("consumer")["g"]


@pytest.mark.parametrize(
    ("asked", "chosen"),
    [
        ([None], "the default"),
        (["range"], "range"),
        (["range", None, None], "range"),
        (["uniform", "range", "uniform"], "uniform"),
        (["uniform", "range"], "range"),
        (["range", "uniform", "uniform", "range", "uniform"], "uniform"),
    ],
)
def test_most_requested_assignor_is_chosen(driver, asked, chosen):
    for number, name in enumerate(asked):
        driver.consumer_heartbeat(f"m{number}", assignor=name)
    assert preferred_assignor(group_of(driver), "the default") == chosen


def test_unsupported_assignor_of_member_is_ignored(driver):
    driver.consumer_heartbeat("a", assignor="range")
    group = group_of(driver)
    assert preferred_assignor(group, "the default") == "range"
    record = RECORDS.member("g", replace(group.members["a"], assignor="best"))
    group.apply(record.key, record.value)
    assert preferred_assignor(group, "the default") == "the default"


def test_assignor_is_chosen_by_members_and_kept(driver):
    assert driver.consumer_heartbeat("a", assignor="best") is ErrorCode.UNSUPPORTED_ASSIGNOR
    epoch = driver.consumer_heartbeat("a", assignor="range").member_epoch
    driver.consumer_heartbeat("a", epoch)
    assert group_of(driver).members["a"].assignor == "range"


def test_new_majority_for_assignor_makes_new_target(driver):
    a = driver.consumer_heartbeat("a").member_epoch
    b = driver.consumer_heartbeat("b").member_epoch
    group = group_of(driver)
    epoch = group.epoch
    driver.consumer_heartbeat("b", b, assignor="uniform")  # already the default
    assert group_of(driver).epoch == epoch
    driver.consumer_heartbeat("a", a, assignor="range")  # a tie, which the first name wins
    assert group_of(driver).epoch == epoch + 1
    assert dict(group_of(driver).assignor_counts) == {"range": 1, "uniform": 1}
    driver.consumer_heartbeat("a", assignor="range")  # the member joins again
    assert group_of(driver).epoch == epoch + 1


def test_group_size_counts_members_and_partitions(driver):
    driver.topics.set("u", 7)
    driver.consumer_heartbeat("a", topics=["t", "gone"])
    driver.consumer_heartbeat("b", topics=["t"])
    assert size_of(group_of(driver), driver.topics) == 2 + 4
    driver.consumer_heartbeat("c", topics=["u"])
    assert size_of(group_of(driver), driver.topics) == 3 + 11


def test_hash_detects_added_removed_and_grown_topics():
    topics = FakeTopics(t=4, u=1)
    both = metadata_hash(["u", "t"], topics)
    assert both == metadata_hash(["t", "u", "gone"], topics)
    assert -(1 << 63) <= both < 1 << 63
    seen = {both, metadata_hash(["t"], topics), metadata_hash(["u"], topics)}
    topics.set("u", 2)
    seen.add(metadata_hash(["t", "u"], topics))
    assert len(seen) == 4
    # Records hold a signed number: some hashes are negative.
    assert any(metadata_hash(["t"], FakeTopics(t=count)) < 0 for count in range(1, 20))
    assert metadata_hash(["gone"], topics) == 0
