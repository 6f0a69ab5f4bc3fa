"""The target of a large share group comes in pieces, on a timer: its end, and what interrupts it."""

from __future__ import annotations

import pytest

from tests.broker.groups.driver import FakeTopics, topic_id
from tests.broker.groups.share.driver import ShareDriver
from trimaran.broker.groups.heartbeating import assigning as heartbeating
from trimaran.broker.groups.heartbeating.operation import HeartbeatTimer
from trimaran.broker.groups.outputs import TimerKey
from trimaran.broker.groups.share import assigning, initializing, simple_assignor
from trimaran.wire.errors import ErrorCode

T = topic_id("t")
PARTITIONS = 30


@pytest.fixture
def driver(monkeypatch):
    """Members join one after another; the group is large from three members on."""
    monkeypatch.setattr(assigning, "INLINE_SIZE_MAX", PARTITIONS + 2)
    monkeypatch.setattr(simple_assignor, "PIECE", 10)
    monkeypatch.setattr(heartbeating, "RECORDS_PER_TICK", 1)
    driver = ShareDriver(topics=FakeTopics(t=PARTITIONS))
    driver.beat("a")
    driver.initialize()
    driver.beat("b")
    driver.beat("c")
    return driver


def epochs(driver):
    return driver.group().epoch, driver.group().assignment_epoch


def sizes(driver):
    return {member: len(target.get(T, ())) for member, target in driver.group().target.items()}


def tick(driver):
    driver.shard.handle_timeout(driver.at)
    driver.settle()


@pytest.mark.parametrize(("count", "pauses"), [(1, 0), (2, 1), (3, 1), (4, 2)])
def test_members_are_read_in_pieces(monkeypatch, count, pauses):
    monkeypatch.setattr(assigning, "PIECE", 2)
    driver = ShareDriver()
    for number in range(count):
        driver.beat(f"m{number}")
    work = assigning._members(driver.group(), driver.topics)
    assert sum(1 for _ in work) == pauses


def test_group_at_the_limit_is_assigned_at_once(driver):
    driver.advance(1)
    epoch, _ = epochs(driver)
    driver.beat("c", -1)
    driver.beat("a", driver.group().members["a"].epoch)
    assert epochs(driver) == (epoch + 1, epoch + 1)


def test_epoch_of_a_large_target_is_written_last(driver):
    epoch, assigned = epochs(driver)
    before = sizes(driver)
    assert before == {"a": 15, "b": 15}
    seen = []
    while epochs(driver) == (epoch, assigned):
        tick(driver)
        if sizes(driver) != (seen[-1] if seen else before):
            seen.append(sizes(driver))
    assert epochs(driver) == (epoch, epoch)
    assert seen == [
        {"a": 10, "b": 15},
        {"a": 10, "b": 10},
        {"a": 10, "b": 10, "c": 10},
    ]
    assert driver.deadline() > driver.now  # no more work is due
    [mine] = driver.beat("c", 0).assignment.topic_partitions
    assert len(mine.partitions) == 10


def test_unfinished_target_shortens_the_heartbeat_interval(driver):
    waiting = driver.beat("b", driver.group().members["b"].epoch)
    driver.advance(1)
    done = driver.beat("b", waiting.member_epoch)
    assert waiting.heartbeat_interval_ms < done.heartbeat_interval_ms
    assert done.member_epoch == driver.group().epoch


def test_member_that_joins_meanwhile_needs_another_target(driver):
    tick(driver)
    driver.beat("d")
    driver.advance(1)
    epoch, assigned = epochs(driver)
    assert assigned == epoch - 1
    driver.beat("d", driver.group().members["d"].epoch)
    driver.advance(1)
    assert epochs(driver) == (epoch, epoch)
    assert sorted(sizes(driver).values()) == [7, 7, 8, 8]


def test_member_that_leaves_meanwhile_gets_no_target(driver):
    tick(driver)
    driver.beat("c", -1)
    driver.advance(1)
    assert sizes(driver).keys() == {"a", "b"}


def test_empty_group_drops_the_unfinished_target(driver):
    tick(driver)
    for member in "abc":
        driver.beat(member, -1)
    found = epochs(driver)
    assert found[0] == found[1]
    driver.advance(1)
    assert epochs(driver) == found
    assert sizes(driver) == {}
    assert driver.beat("a", 0).member_epoch == found[0] + 1


def test_next_coordinator_restarts_the_target(driver):
    while len(sizes(driver)) < 3:
        tick(driver)
    other = driver.reloaded()
    epoch, assigned = epochs(other)
    assert assigned == epoch - 1
    other.advance(1)
    assert epochs(other) == (epoch, assigned)  # nothing changes until the next heartbeat
    other.beat("a", other.group().members["a"].epoch)
    other.advance(1)
    assert epochs(other) == (epoch, epoch)
    assert sizes(other) == {"a": 10, "b": 10, "c": 10}


def test_failed_write_of_a_piece_starts_over(driver):
    driver.failing = ErrorCode.NOT_ENOUGH_REPLICAS
    driver.advance(1)
    epoch, assigned = epochs(driver)
    assert (assigned, sizes(driver)) == (epoch - 1, {"a": 15, "b": 15})
    assert TimerKey(HeartbeatTimer.TARGET, "g") not in driver.shares._timers
    driver.failing = None
    driver.beat("a", driver.group().members["a"].epoch)
    driver.advance(1)
    assert epochs(driver) == (epoch, epoch)


def test_failed_heartbeat_drops_the_target_of_its_epoch(driver):
    driver.advance(1)
    driver.beat("b", driver.group().members["b"].epoch)
    driver.advance(1)
    found = epochs(driver)
    driver.failing = ErrorCode.NOT_ENOUGH_REPLICAS
    assert driver.beat("d") is ErrorCode.NOT_ENOUGH_REPLICAS
    driver.failing = None
    driver.advance(1)
    assert epochs(driver) == found


def initialized(driver):
    return sorted(topic.name for topic in driver.group().known_states.initialized.values())


@pytest.mark.parametrize(("limit", "found"), [(2, "tu"), (3, "tuv"), (4, "tuv")])
def test_topics_of_a_group_are_limited(monkeypatch, limit, found):
    monkeypatch.setattr(initializing, "TOPICS_MAX", limit)
    driver = ShareDriver(topics=FakeTopics(t=1, u=1, v=1))
    driver.beat("a", topics=["v", "u", "t"])
    driver.initialize()
    driver.beat("a", driver.group().members["a"].epoch)
    driver.initialize()
    assert initialized(driver) == list(found)
    driver.topics.set("t", 2)
    driver.beat("a", driver.group().members["a"].epoch)
    [(_, begun)] = driver.initialize()
    assert list(begun.offsets) == [(T, 1)]


def test_topics_behind_missing_ones_are_initialized(monkeypatch):
    """The topic s is missing, and t is beyond the limit."""
    monkeypatch.setattr(initializing, "TOPICS_MAX", 1)
    driver = ShareDriver(topics=FakeTopics(t=1, u=1))
    driver.beat("a", topics=["u"])
    driver.initialize()
    driver.topics.set("u", 2)
    driver.beat("a", driver.group().members["a"].epoch, topics=["s", "t", "u"])
    [(_, begun)] = driver.initialize()
    assert [partition for _, partition in begun.offsets] == [1]


def test_topics_are_initialized_some_at_a_time(monkeypatch):
    monkeypatch.setattr(initializing, "TOPICS_AT_A_TIME", 2)
    driver = ShareDriver(topics=FakeTopics(t=1, u=1, v=1))
    driver.beat("a", topics=["v", "u", "t"])
    driver.initialize()
    assert initialized(driver) == ["t", "u"]
    driver.beat("a", driver.group().members["a"].epoch)
    driver.initialize()
    assert initialized(driver) == ["t", "u", "v"]
