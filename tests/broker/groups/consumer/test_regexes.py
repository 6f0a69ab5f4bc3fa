"""Patterns of a group: when they are resolved again, and the effect of their matches."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.broker.groups.driver import Driver, FakeTopics
from trimaran.wire.errors import ErrorCode


@pytest.fixture
def driver():
    return Driver()


@pytest.fixture
def later(driver):
    """Returns a driver that resolves patterns when the test permits it."""
    driver.topics = FakeTopics(**dict.fromkeys(["t0", "t1", "u5"], 1))
    driver.matching_later = True
    return driver


def matched(driver, regex="t.*"):
    found = driver.shard.store.of("consumer")["g"].regexes.get(regex)
    return None if found is None else set(found.topics)


def work(driver):
    return driver.consumers._works["g"]


# -- when patterns are resolved


def test_new_topics_are_found_after_an_interval(driver):
    epoch = driver.consumer_heartbeat("a", regex="t.*").member_epoch
    driver.topics.set("t2", 1)
    driver.advance(9.999)
    epoch = driver.consumer_heartbeat("a", epoch).member_epoch
    assert matched(driver) == {"t"}
    driver.advance(0.001)
    driver.consumer_heartbeat("a", epoch)
    assert matched(driver) == {"t", "t2"}
    answer = driver.consumer_heartbeat("a", epoch)
    assert answer.member_epoch == epoch + 1
    assert len(answer.assignment.topic_partitions) == 2


def test_same_topics_are_rechecked_after_configured_interval(driver):
    """A member's visible topics can have changed although the topics have not."""
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


def test_unchanged_match_begins_no_epoch(driver):
    driver.settings = replace(driver.settings, regex_refresh_interval_ms=20_000)
    epoch = driver.consumer_heartbeat("a", regex="t.*").member_epoch
    epoch = driver.consumer_heartbeat("a", epoch).member_epoch
    written = len(driver.log)
    driver.advance(20)
    assert driver.consumer_heartbeat("a", epoch).member_epoch == epoch
    assert len(driver.log) == written


def test_new_pattern_with_same_match_is_new_subscription(driver):
    epoch = driver.consumer_heartbeat("a", regex="x.*").member_epoch
    assert driver.consumer_heartbeat("a", epoch, regex="y.*").member_epoch == epoch + 1


def test_pattern_goes_with_its_last_member(driver):
    driver.consumer_heartbeat("a", regex="t.*")
    driver.consumer_heartbeat("b", regex="t.*")
    driver.consumer_heartbeat("z")
    driver.consumer_heartbeat("a", -1)
    assert set(driver.replayed().of("consumer")["g"].regexes) == {"t.*"}
    driver.consumer_heartbeat("b", -1)
    assert not driver.replayed().of("consumer")["g"].regexes
    assert not driver.consumers._works["g"].checked_regexes


def test_reresolved_pattern_also_goes_with_last_member(later):
    later.settings = replace(later.settings, regex_refresh_interval_ms=20_000)
    epoch = later.consumer_heartbeat("a", regex="t.*").member_epoch
    later.match()
    later.advance(20)
    later.consumer_heartbeat("a", epoch)
    assert set(work(later).regexes) == {"t.*"}
    later.consumer_heartbeat("a", -1)
    assert not work(later).regexes
    later.match()
    assert not later.replayed().of("consumer")["g"].regexes


# -- the effect of the matches


def test_heartbeat_gets_pattern_topics_next_time(later):
    """Apache Kafka 4.3 responds in this way: epoch 1 without partitions, then epoch 2."""
    answer = later.consumer_heartbeat("a", regex="t.*")
    assert (answer.member_epoch, answer.assignment.topic_partitions) == (1, [])
    assert matched(later) is None
    later.match()
    assert matched(later) == {"t0", "t1"}
    answer = later.consumer_heartbeat("a", 1)
    assert answer.member_epoch == 2
    assert len(answer.assignment.topic_partitions) == 2


def test_known_pattern_gives_topics_at_once(driver):
    driver.consumer_heartbeat("a", regex="t.*")
    assert driver.consumer_heartbeat("b", regex="t.*").member_epoch == 3


def test_unresolved_pattern_does_not_affect_other_members(later):
    epoch = later.consumer_heartbeat("a", topics=["t0"]).member_epoch
    assert later.consumer_heartbeat("b", regex="u.*").member_epoch == epoch
    later.match()
    assert later.consumer_heartbeat("b", epoch).member_epoch == epoch + 1


def test_running_resolution_is_not_started_again(later):
    later.consumer_heartbeat("a", regex="t.*")
    later.consumer_heartbeat("b", regex="t.*")
    later.consumer_heartbeat("c", regex="u.*")
    assert later.follow_ups == ["g"]
    later.match()
    assert (matched(later), matched(later, "u.*")) == ({"t0", "t1"}, {"u5"})
    assert not work(later).resolving
    later.consumer_heartbeat("d", regex="v.*")
    assert later.follow_ups == ["g"]


def test_pattern_is_resolved_with_rights_of_first_sender(later):
    later.consumer_heartbeat("a", regex="t.*", may_see=lambda name: name != "t0")
    later.consumer_heartbeat("b", regex="t.*")
    later.match()
    assert matched(later) == {"t1", "t2", "t3", "t4", "t5"} & set(later.topics.names())
    assert "t0" in later.topics.names()


def test_invalid_pattern_is_refused_unwritten(driver):
    assert driver.consumer_heartbeat("a", regex="(") is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert not driver.log


def test_abandoned_pattern_is_not_written(later):
    epoch = later.consumer_heartbeat("a", regex="t.*").member_epoch
    later.consumers.regex_resolved("g", "other", frozenset({"t0"}), 0, later.at)
    later.consumer_heartbeat("a", epoch, topics=["t0"], regex="")
    later.match()
    assert matched(later) is None
    assert not later.replayed().of("consumer")["g"].regexes


def test_failed_resolution_keeps_known_topics(later):
    later.settings = replace(later.settings, regex_refresh_interval_ms=20_000)
    later.consumer_heartbeat("a", regex="t.*")
    later.match()
    later.advance(20)
    later.consumer_heartbeat("a", 2)
    later.consumers.regex_resolved("g", "t.*", None, 0, later.at)
    assert matched(later) == {"t0", "t1"}
    assert later.consumers.next_regex("g") is None


def test_pattern_resolved_for_removed_group_is_dropped(later):
    later.consumer_heartbeat("a", regex="t.*")
    work(later).regexes["u.*"] = lambda _name: True
    del later.shard.store.of("consumer")["g"]
    before = len(later.log)
    later.consumers.regex_resolved("g", "u.*", frozenset("u"), 1, later.at)
    later.settle()
    assert (work(later).regexes.keys(), len(later.log)) == ({"t.*"}, before)


def test_removed_group_gets_no_follow_up(later):
    epoch = later.consumer_heartbeat("a", regex="t.*").member_epoch
    later.consumers.forget("g")
    later.match()
    assert "g" not in later.consumers._works
    later.consumer_heartbeat("a", epoch)
    assert later.follow_ups == ["g"]


def test_pattern_without_matches_changes_the_target(driver):
    driver.settings = replace(driver.settings, regex_refresh_interval_ms=20_000)
    epoch = driver.consumer_heartbeat("a", regex="t.*").member_epoch
    epoch = driver.consumer_heartbeat("a", epoch).member_epoch
    driver.consumer_heartbeat("b", topics=["u"])
    driver.topics.set("t", 0)
    driver.advance(20)
    driver.consumer_heartbeat("a", epoch)
    assert matched(driver) == set()
    assert driver.shard.store.of("consumer")["g"].target["a"] == {}


def test_replaced_pattern_is_removed(later):
    epoch = later.consumer_heartbeat("a", regex="t.*").member_epoch
    later.match()
    epoch = later.consumer_heartbeat("a", epoch).member_epoch
    later.consumer_heartbeat("a", epoch, regex="u.*")
    later.match()
    assert set(later.replayed().of("consumer")["g"].regexes) == {"u.*"}


def test_new_coordinator_removes_replaced_pattern_at_once(driver):
    """The new coordinator has the pattern from the records alone, and has not checked it."""
    epoch = driver.consumer_heartbeat("a", regex="t.*").member_epoch
    epoch = driver.consumer_heartbeat("a", epoch).member_epoch
    after = Driver(log=driver.log, now=driver.now)
    assert set(after.replayed().of("consumer")["g"].regexes) == {"t.*"}
    after.consumer_heartbeat("a", epoch, regex="")
    assert not after.replayed().of("consumer")["g"].regexes
