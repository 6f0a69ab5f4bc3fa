"""Patterns: who may see what they match, when they are looked up again, and work that comes in pieces."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.groups.consumer import regexes
from broker.groups.consumer.assignors.model import done
from broker.groups.consumer.regexes import REFRESH_INTERVAL_MS_MIN, compiled, resolve
from broker.groups.consumer.settings import REGEX_CHARACTERS_MAX
from broker.groups.operation import Timer, TimerKey
from tests.broker.groups.driver import Driver, FakeTopics
from wire.errors import ErrorCode, KafkaError

MATCHING = TimerKey(Timer.REGEXES, "g")


def everything(_name):
    return True


@pytest.fixture
def driver():
    return Driver()


@pytest.fixture
def pieces(monkeypatch):
    """More than three topics are matched on the timer, two in a piece and four in a tick."""
    monkeypatch.setattr(regexes, "INLINE_TOPICS_MAX", 3)
    monkeypatch.setattr(regexes, "PIECE", 2)


def many():
    return Driver(topics=FakeTopics(**dict.fromkeys(["t0", "t1", "t2", "t3", "t4", "u5", "t6"], 1)))


def matched(driver, regex="t.*"):
    found = driver.shard.store.consumer_groups["g"].regexes.get(regex)
    return None if found is None else set(found.topics)


def test_a_whole_name_matches_or_it_does_not():
    topics = FakeTopics(tu=1, t=1, ut=1)
    assert done(resolve("t", topics, everything)) == {"t"}
    assert done(resolve("t.*", topics, everything)) == {"t", "tu"}


def test_what_a_member_may_not_see_does_not_match():
    topics = FakeTopics(t1=1, t2=1, u=1)
    assert done(resolve(".*", topics, lambda name: name != "t2")) == {"t1", "u"}


@pytest.mark.parametrize(
    ("regex", "reason"), [("(", "missing )"), ("a{2000}", "repetition"), ("(?=x)", "invalid perl")]
)
def test_a_pattern_that_is_none_is_refused_with_the_reason(regex, reason, capfd):
    with pytest.raises(KafkaError, match=r"(?s)not a valid regular expression") as failure:
        compiled(regex)
    assert failure.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert reason in str(failure.value)
    assert "b'" not in str(failure.value)
    assert capfd.readouterr().err == ""  # RE2 would write it there


def test_a_long_pattern_is_refused_before_it_is_read():
    assert compiled("a" * REGEX_CHARACTERS_MAX)("a" * REGEX_CHARACTERS_MAX)
    with pytest.raises(KafkaError, match="longer than"):
        compiled("a" * (REGEX_CHARACTERS_MAX + 1))


def test_a_pattern_that_takes_too_much_memory_is_refused():
    with pytest.raises(KafkaError, match="not a valid"):
        compiled("((a{100}){100}){100}")


# -- when it is looked up


def test_new_topics_are_found_after_a_while_and_not_before(driver):
    epoch = driver.consumer_heartbeat("a", regex="t.*").member_epoch
    driver.topics.set("t2", 1)
    driver.advance((REFRESH_INTERVAL_MS_MIN - 1) / 1000)
    epoch = driver.consumer_heartbeat("a", epoch).member_epoch
    assert matched(driver) == {"t"}
    driver.advance(0.001)
    answer = driver.consumer_heartbeat("a", epoch)
    assert matched(driver) == {"t", "t2"}
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


def test_a_pattern_that_is_looked_up_again_goes_with_its_last_member_too(driver, pieces):
    driver.settings = replace(driver.settings, regex_refresh_interval_ms=20_000)
    epoch = driver.consumer_heartbeat("a", regex="t.*").member_epoch
    for name in ("t1", "t2", "t3"):
        driver.topics.set(name, 1)
    driver.advance(20)
    driver.consumer_heartbeat("a", epoch)
    assert set(driver.shard.consumers._works["g"].regexes) == {"t.*"}
    driver.consumer_heartbeat("a", -1)
    assert not driver.shard.consumers._works["g"].regexes


# -- in pieces


def test_many_topics_are_matched_on_the_timer_and_lead_to_a_target(pieces):
    driver = many()
    answer = driver.consumer_heartbeat("a", regex="t.*")
    assert matched(driver) is None
    assert driver.deadline() == 0.0
    assert driver.advance(0) == [0.0, 0.0]
    assert matched(driver) == {"t0", "t1", "t2", "t3", "t4", "t6"}
    after = driver.consumer_heartbeat("a", answer.member_epoch)
    assert after.member_epoch == answer.member_epoch + 1
    assert len(after.assignment.topic_partitions) == 6
    assert MATCHING not in driver.shard._timers


def test_as_many_as_fit_are_matched_at_once(pieces):
    driver = Driver(topics=FakeTopics(t0=1, t1=1, t2=1))
    driver.consumer_heartbeat("a", regex="t.*")
    assert matched(driver) == {"t0", "t1", "t2"}


def test_a_pattern_in_the_works_is_not_begun_again(pieces):
    driver = many()
    epoch = driver.consumer_heartbeat("a", regex="t.*").member_epoch
    working = driver.shard.consumers._works["g"].regexes["t.*"]
    driver.consumer_heartbeat("a", epoch)
    assert driver.shard.consumers._works["g"].regexes["t.*"] is working


def test_a_wrong_pattern_is_refused_at_once_however_many_topics_there_are(pieces):
    driver = many()
    assert driver.consumer_heartbeat("a", regex="(") is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert not driver.log


def test_a_pattern_that_nobody_waits_for_any_more_is_not_written(pieces):
    driver = many()
    epoch = driver.consumer_heartbeat("a", regex="t.*").member_epoch
    driver.consumer_heartbeat("a", epoch, topics=["t0"], regex="")
    driver.advance(1)
    assert matched(driver) is None
    assert not driver.replayed().consumer_groups["g"].regexes


def test_two_patterns_are_matched_one_after_the_other(pieces):
    driver = many()
    driver.consumer_heartbeat("a", regex="t.*")
    driver.consumer_heartbeat("b", regex="u.*")
    driver.advance(0)
    assert matched(driver) == {"t0", "t1", "t2", "t3", "t4", "t6"}
    assert matched(driver, "u.*") == {"u5"}


def test_a_group_that_is_gone_is_not_worked_for(pieces):
    driver = many()
    epoch = driver.consumer_heartbeat("a", regex="t.*").member_epoch
    driver.shard.consumers.forget("g")
    assert MATCHING not in driver.shard._timers
    assert "g" not in driver.shard.consumers._works
    assert driver.consumer_heartbeat("a", epoch).member_epoch == epoch
