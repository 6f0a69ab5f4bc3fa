"""Patterns of a group: when they are resolved again, and what comes of what they are found to match."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.broker.groups.driver import Driver, FakeTopics
from trimaran.broker.groups.consumer.regexes import REFRESH_INTERVAL_MS_MIN
from trimaran.wire.errors import ErrorCode


@pytest.fixture
def driver():
    return Driver()


@pytest.fixture
def later(driver):
    """A driver whose patterns are resolved when the test says."""
    driver.topics = FakeTopics(**dict.fromkeys(["t0", "t1", "u5"], 1))
    driver.matching_later = True
    return driver


def matched(driver, regex="t.*"):
    found = driver.shard.store.consumer_groups["g"].regexes.get(regex)
    return None if found is None else set(found.topics)


def work(driver):
    return driver.shard.consumers._works["g"]


# -- when it is looked up


def test_new_topics_are_found_after_a_while_and_not_before(driver):
    epoch = driver.consumer_heartbeat("a", regex="t.*").member_epoch
    driver.topics.set("t2", 1)
    driver.advance((REFRESH_INTERVAL_MS_MIN - 1) / 1000)
    epoch = driver.consumer_heartbeat("a", epoch).member_epoch
    assert matched(driver) == {"t"}
    driver.advance(0.001)
    driver.consumer_heartbeat("a", epoch)
    assert matched(driver) == {"t", "t2"}
    answer = driver.consumer_heartbeat("a", epoch)
    assert answer.member_epoch == epoch + 1
    assert len(answer.assignment.topic_partitions) == 2


def test_of_the_same_topics_nothing_is_asked_again_before_the_configured_interval(driver):
    """What a member may see can have changed though the topics have not."""
    driver.settings = replace(driver.settings, regex_refresh_interval_ms=60_000)
    hidden = {"t2"}
    driver.topics.set("t2", 1)

    def may_see(name):
        return name not in hidden

    epoch = driver.consumer_heartbeat("a", regex="t.*", may_see=may_see).member_epoch
    epoch = driver.consumer_heartbeat("a", epoch, may_see=may_see).member_epoch
    hidden.clear()
    for _ in range(2):
        driver.advance(29.9995)
        driver.consumer_heartbeat("a", epoch, may_see=may_see)
        assert matched(driver) == {"t"}
    driver.advance(0.001)
    driver.consumer_heartbeat("a", epoch, may_see=may_see)
    assert matched(driver) == {"t", "t2"}


def test_a_pattern_that_matches_as_before_is_no_new_epoch(driver):
    driver.settings = replace(driver.settings, regex_refresh_interval_ms=20_000)
    epoch = driver.consumer_heartbeat("a", regex="t.*").member_epoch
    epoch = driver.consumer_heartbeat("a", epoch).member_epoch
    written = len(driver.log)
    driver.advance(20)
    assert driver.consumer_heartbeat("a", epoch).member_epoch == epoch
    assert len(driver.log) == written


def test_a_new_pattern_that_matches_the_same_is_another_subscription(driver):
    epoch = driver.consumer_heartbeat("a", regex="x.*").member_epoch
    assert driver.consumer_heartbeat("a", epoch, regex="y.*").member_epoch == epoch + 1


def test_a_pattern_goes_with_the_last_member_that_had_it(driver):
    driver.consumer_heartbeat("a", regex="t.*")
    driver.consumer_heartbeat("b", regex="t.*")
    driver.consumer_heartbeat("z")
    driver.consumer_heartbeat("a", -1)
    assert set(driver.replayed().consumer_groups["g"].regexes) == {"t.*"}
    driver.consumer_heartbeat("b", -1)
    assert not driver.replayed().consumer_groups["g"].regexes
    assert not driver.shard.consumers._works["g"].checked_regexes


def test_a_pattern_that_is_looked_up_again_goes_with_its_last_member_too(later):
    later.settings = replace(later.settings, regex_refresh_interval_ms=20_000)
    epoch = later.consumer_heartbeat("a", regex="t.*").member_epoch
    later.match()
    later.advance(20)
    later.consumer_heartbeat("a", epoch)
    assert set(work(later).regexes) == {"t.*"}
    later.consumer_heartbeat("a", -1)
    assert not work(later).regexes
    later.match()
    assert not later.replayed().consumer_groups["g"].regexes


# -- what comes of it


def test_a_heartbeat_does_not_wait_for_its_pattern_and_the_next_has_the_topics(later):
    """As Kafka 4.3 answers: epoch 1 with nothing, then 2."""
    answer = later.consumer_heartbeat("a", regex="t.*")
    assert (answer.member_epoch, answer.assignment.topic_partitions) == (1, [])
    assert matched(later) is None
    later.match()
    assert matched(later) == {"t0", "t1"}
    answer = later.consumer_heartbeat("a", 1)
    assert answer.member_epoch == 2
    assert len(answer.assignment.topic_partitions) == 2


def test_a_member_whose_pattern_is_known_in_the_group_gets_its_topics_at_once(driver):
    driver.consumer_heartbeat("a", regex="t.*")
    assert driver.consumer_heartbeat("b", regex="t.*").member_epoch == 3


def test_a_member_with_a_new_pattern_changes_nothing_for_the_others_until_it_is_resolved(later):
    epoch = later.consumer_heartbeat("a", topics=["t0"]).member_epoch
    assert later.consumer_heartbeat("b", regex="u.*").member_epoch == epoch
    later.match()
    assert later.consumer_heartbeat("b", epoch).member_epoch == epoch + 1


def test_a_pattern_that_is_being_resolved_is_not_begun_again(later):
    later.consumer_heartbeat("a", regex="t.*")
    later.consumer_heartbeat("b", regex="t.*")
    later.consumer_heartbeat("c", regex="u.*")
    assert later.follow_ups == ["g"]
    later.match()
    assert (matched(later), matched(later, "u.*")) == ({"t0", "t1"}, {"u5"})
    assert not work(later).resolving
    later.consumer_heartbeat("d", regex="v.*")
    assert later.follow_ups == ["g"]


def test_a_wrong_pattern_is_refused_and_nothing_is_written(driver):
    assert driver.consumer_heartbeat("a", regex="(") is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert not driver.log


def test_a_pattern_that_nobody_waits_for_any_more_is_not_written(later):
    epoch = later.consumer_heartbeat("a", regex="t.*").member_epoch
    later.shard.consumers.regex_resolved("g", "other", frozenset({"t0"}), 0, later.at)
    later.consumer_heartbeat("a", epoch, topics=["t0"], regex="")
    later.match()
    assert matched(later) is None
    assert not later.replayed().consumer_groups["g"].regexes


def test_a_pattern_that_cannot_be_resolved_leaves_what_was_known(later):
    later.settings = replace(later.settings, regex_refresh_interval_ms=20_000)
    later.consumer_heartbeat("a", regex="t.*")
    later.match()
    later.advance(20)
    later.consumer_heartbeat("a", 2)
    later.shard.consumers.regex_resolved("g", "t.*", None, 0, later.at)
    assert matched(later) == {"t0", "t1"}
    assert later.shard.consumers.next_regex("g") is None


def test_a_group_that_is_gone_is_not_worked_for(later):
    epoch = later.consumer_heartbeat("a", regex="t.*").member_epoch
    later.shard.consumers.forget("g")
    later.match()
    assert "g" not in later.shard.consumers._works
    later.consumer_heartbeat("a", epoch)
    assert later.follow_ups == ["g"]


def test_a_pattern_that_matches_nothing_any_more_is_another_target(driver):
    driver.settings = replace(driver.settings, regex_refresh_interval_ms=20_000)
    epoch = driver.consumer_heartbeat("a", regex="t.*").member_epoch
    epoch = driver.consumer_heartbeat("a", epoch).member_epoch
    driver.consumer_heartbeat("b", topics=["u"])
    driver.topics.set("t", 0)
    driver.advance(20)
    driver.consumer_heartbeat("a", epoch)
    assert matched(driver) == set()
    assert driver.shard.store.consumer_groups["g"].target["a"] == {}


def test_a_pattern_that_its_member_gives_up_for_another_goes(later):
    epoch = later.consumer_heartbeat("a", regex="t.*").member_epoch
    later.match()
    epoch = later.consumer_heartbeat("a", epoch).member_epoch
    later.consumer_heartbeat("a", epoch, regex="u.*")
    later.match()
    assert set(later.replayed().consumer_groups["g"].regexes) == {"u.*"}
