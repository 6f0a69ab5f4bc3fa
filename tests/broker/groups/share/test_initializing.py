"""The initialization of share partitions, as members of the group notice it."""

from __future__ import annotations

import pytest

from tests.broker.groups.driver import FakeTopics, topic_id
from tests.broker.groups.share.driver import ShareDriver, of_topics
from tests.broker.groups.share.test_offsets import alter, asked, finish, named
from trimaran.broker.groups.heartbeating.settings import reconciling_interval_ms
from trimaran.broker.share_state.changes import InitializedStates
from trimaran.wire.errors import ErrorCode

E = ErrorCode
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


def begun(driver):
    """Begins the requested initializations and returns their partitions."""
    groups, driver.follow_ups = driver.follow_ups, []
    found = map(driver.shares.begin_initialization, groups)
    return [list(asked.offsets) for asked in found if asked is not None]


def end(driver, *, is_done=True):
    """Ends the current initialization."""
    running = driver.shares._works["g"].running
    both = (of_topics(running.offsets), {})
    outcome = InitializedStates(*(both if is_done else reversed(both)))
    driver.shares.initialized("g", running, outcome, driver.at)
    driver.settle()


def retry_seconds(driver):
    return driver.share_settings.initialize_retry_ms / 1000


# -- one at a time


def test_heartbeats_begin_none_while_another_waits(driver):
    driver.beat("a")
    driver.topics.set("t", 3)
    for name in ("b", "a"):
        driver.now += retry_seconds(driver)
        driver.beat(name, topics=["t", "u"])
    assert driver.follow_ups == ["g"]
    assert begun(driver) == [named(T, 0)]


def test_heartbeats_begin_none_while_another_runs(driver):
    driver.beat("a")
    assert begun(driver) == [named(T, 0)]
    for _ in range(10):
        driver.now += retry_seconds(driver)
        beat(driver, topics=["t", "u"])
        assert driver.follow_ups == []
    assert driver.group().states.initializing.keys() == {T}
    end(driver)
    beat(driver)
    assert begun(driver) == [named(U, 0)]


def test_failed_initialization_is_repeated_by_next_heartbeat(driver):
    driver.beat("a")
    for _ in range(3):
        assert begun(driver) == [named(T, 0)]
        end(driver, is_done=False)
        assert begun(driver) == []
        beat(driver)
    assert begun(driver) == [named(T, 0)]
    end(driver)
    beat(driver)
    assert driver.follow_ups == []
    assert driver.group().states.initialized.keys() == {T}


def test_groups_begin_independently(driver):
    driver.beat("a")
    driver.beat("a", group="h")
    assert driver.follow_ups == ["g", "h"]
    assert begun(driver) == [named(T, 0)] * 2
    assert driver.shares.begin_initialization("no") is None


def test_initialization_runs_once_while_coordinators_are_unreachable():
    driver = ShareDriver(topics=FakeTopics(t=1_000))
    driver.beat("a")
    ends = 0.0
    for _ in range(1_000):  # a failure takes 310 s, and a member comes every 5 s
        if driver.shares._works["g"].running is None:
            assert len(begun(driver)) == 1
            ends = driver.now + 310
        elif driver.now >= ends:
            end(driver, is_done=False)
        driver.now += 5
        beat(driver)
        assert len(driver.follow_ups) <= 1
    assert driver.group().states.initializing[T].partitions == frozenset(range(1_000))


# -- outcomes that are lost, late or not written


def test_initialization_of_lost_outcome_is_repeated_later(driver):
    driver.beat("a")
    begun(driver)
    driver = driver.reloaded()
    beat(driver)  # the time begins with the first heartbeat
    for seconds, count in ((29.999, 0), (0.001, 1)):
        driver.now += seconds
        beat(driver)
        assert driver.follow_ups == ["g"] * count
    assert begun(driver) == [named(T, 0)]


def test_unwritten_outcome_is_repeated_after_its_time(driver):
    driver.beat("a")
    begun(driver)
    driver.failing = E.NOT_ENOUGH_REPLICAS
    end(driver)
    driver.failing = None
    for seconds, found in ((29.999, []), (0.001, [named(T, 0)])):
        driver.now += seconds
        beat(driver)
        assert begun(driver) == found


def test_outcome_for_a_deleted_group_is_ignored(driver):
    driver.beat("a")
    begun(driver)
    old = driver.shares._works["g"].running
    driver.beat("a", -1)
    driver.submit(driver.shard.delete_groups(["g"]))
    outcome = InitializedStates(of_topics(old.offsets), {})
    driver.shares.initialized("g", old, outcome, driver.at)
    driver.beat("a")
    assert begun(driver) == [named(T, 0)]
    driver.shares.initialized("g", old, outcome, driver.at)
    driver.settle()
    beat(driver)
    assert driver.group().states.initializing.keys() == {T}
    assert driver.follow_ups == []
    end(driver)
    assert driver.group().states.initialized.keys() == {T}


def test_unwritten_heartbeat_begins_no_initialization(driver):
    driver.failing = E.NOT_ENOUGH_REPLICAS
    assert driver.beat("a") is E.NOT_ENOUGH_REPLICAS
    assert begun(driver) == []
    driver.failing = None
    driver.beat("b", topics=["no"])
    driver.failing = E.NOT_ENOUGH_REPLICAS
    assert driver.beat("b", 2, topics=["t"]) is E.NOT_ENOUGH_REPLICAS
    assert begun(driver) == []
    work = driver.shares._works["g"]
    assert (work.waiting, work.running) == (None, None)


def test_unwritten_heartbeat_repeats_no_initialization(driver):
    driver.beat("a")
    begun(driver)
    end(driver, is_done=False)
    driver.failing = E.NOT_ENOUGH_REPLICAS
    assert beat(driver) is E.NOT_ENOUGH_REPLICAS
    assert begun(driver) == []
    driver.failing = None
    driver.now += retry_seconds(driver)
    beat(driver)
    assert begun(driver) == [named(T, 0)]


def test_unwritten_heartbeat_keeps_the_previous_initialization(driver):
    driver.beat("a")
    driver.failing = E.NOT_ENOUGH_REPLICAS
    assert beat(driver, topics=["t", "u"]) is E.NOT_ENOUGH_REPLICAS
    assert begun(driver) == [named(T, 0)]
    assert beat(driver, topics=["t", "u"]) is E.NOT_ENOUGH_REPLICAS
    driver.failing = None
    end(driver)
    assert driver.group().states.initialized.keys() == {T}


def test_failed_alteration_of_new_group_is_repeated_soon(driver):
    alter(driver, asked("t", p0=3))
    finish(driver, failed=named(T, 0))
    driver.beat("a")
    assert begun(driver) == [named(T, 0)]


# -- the interval of heartbeats


def test_failed_topic_shortens_the_heartbeat_interval(driver):
    driver.beat("a", topics=["t", "u"])
    driver.initialize(lambda partition: partition.topic_id == U)
    calm, soon = intervals(driver)
    assert calm > soon
    assert beat(driver).heartbeat_interval_ms == soon
    assert driver.group().states.initializing.keys() == {U}
    driver.initialize()
    assert beat(driver).heartbeat_interval_ms == calm


def test_unsubscribed_failed_topic_keeps_the_heartbeat_interval(driver):
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


def test_failed_alteration_elsewhere_keeps_the_heartbeat_interval(driver):
    alter(driver, asked("u", p0=3))
    finish(driver, failed=named(U, 0))
    driver.beat("a")
    driver.initialize()
    beat(driver)
    assert driver.group().states.initializing.keys() == {U}
    assert beat(driver).heartbeat_interval_ms == intervals(driver)[0]
