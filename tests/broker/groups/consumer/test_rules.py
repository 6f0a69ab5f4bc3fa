"""Rules of consumer groups that no other test covers, one per test."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.broker.groups.driver import Driver, subscription, topic_id
from trimaran.broker.groups.consumer import admission
from trimaran.broker.groups.consumer.member import MemberState
from trimaran.broker.groups.heartbeating.operation import HeartbeatGroupWrite, HeartbeatTimer
from trimaran.broker.groups.heartbeating.settings import SUBSCRIPTION_BYTES_MAX
from trimaran.broker.groups.outputs import Timer, TimerKey
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import TopicPartition
from trimaran.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse

T, U = b"t" * 16, b"u" * 16


@pytest.fixture
def driver():
    return Driver()


@pytest.mark.parametrize(
    ("reported", "is_no_more"),
    [
        (None, False),
        ({}, True),
        ({T: {0}}, True),
        ({T: {0, 1}}, True),
        ({T: {0, 2}}, False),
        ({T: {0}, U: {0}}, False),
    ],
)
def test_missed_epoch_needs_no_excess_partitions(reported, is_no_more):
    assigned = {T: {0: 1, 1: 1}}
    assert admission._owns_no_more(reported, assigned) is is_no_more


def test_heartbeats_are_frequent_until_group_rests(driver):
    """A member at its target may soon get partitions that others have revoked."""
    wanted = driver.settings.heartbeat_interval_ms
    answer = driver.consumer_heartbeat("a")
    assert answer.heartbeat_interval_ms < wanted
    driver.advance(2.9)
    assert driver.consumer_heartbeat("a", answer.member_epoch).heartbeat_interval_ms < wanted
    driver.advance(0.1)
    assert driver.consumer_heartbeat("a", answer.member_epoch).heartbeat_interval_ms == wanted


def test_leaving_member_leaves_no_timer(driver):
    driver.consumer_heartbeat("a")
    driver.consumer_heartbeat("b")
    assert TimerKey(Timer.SESSION, "g", "a") in driver.shard._timers
    driver.consumer_heartbeat("a", -1)
    assert TimerKey(Timer.SESSION, "g", "a") not in driver.shard._timers
    assert TimerKey(Timer.SESSION, "g", "b") in driver.shard._timers


def test_unused_pattern_leaves_nothing_in_log(driver):
    answer = driver.consumer_heartbeat("a", regex="t.*")
    assert list(driver.replayed().of("consumer")["g"].regexes) == ["t.*"]
    driver.consumer_heartbeat("a", answer.member_epoch, topics=["t"], regex="")
    assert list(driver.replayed().of("consumer")["g"].regexes) == []


def test_answer_without_failure_variant_is_always_given(driver):
    """A timer's write may have a waiter that gets the same answer in any case."""
    response = ConsumerGroupHeartbeatResponse(member_epoch=1, heartbeat_interval_ms=5)
    driver.shard.outputs.respond_to(
        HeartbeatGroupWrite(kind="consumer", group_id="g", token="token", response=response),
        ErrorCode.NONE,
    )
    write = HeartbeatGroupWrite(kind="consumer", group_id="g", token="late", response=response)
    driver.shard.outputs.respond_to(write, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    driver.settle()
    assert driver.answers["token"] is response
    assert driver.answers["late"] is response


# -- invalid requests


@pytest.mark.parametrize(
    "wrong",
    [
        {"group": ""},
        {"instance": ""},
        {"rack": ""},
        {"member_id": ""},
        {"member_id": "m" * 1_001},
        {"topics": ["t" * (SUBSCRIPTION_BYTES_MAX // 2 + 1)] * 2},
        {"owned": {"t": [0]}},
        {"rebalance_ms": -1},
        {"epoch": -3},
        {"epoch": -2},
        {"epoch": 1, "member_id": ""},
    ],
    ids=str,
)
def test_request_invalid_for_any_group_is_refused(driver, wrong):
    asked = {"member_id": "a"} | wrong
    assert driver.consumer_heartbeat(**asked) is ErrorCode.INVALID_REQUEST
    assert not driver.log


def test_members_of_version_0_are_given_an_id(driver):
    answer = driver.consumer_heartbeat("", version=0)
    assert answer.member_id


# -- answers and records


def test_full_heartbeat_gets_full_answer(driver):
    epoch = driver.consumer_heartbeat("a").member_epoch
    everything = {"topics": ["t"], "owned": {"t": [0, 1, 2, 3]}, "rebalance_ms": 60_000}
    assert driver.consumer_heartbeat("a", epoch, **everything).assignment is not None
    for left_out in everything:
        rest = {name: value for name, value in everything.items() if name != left_out}
        assert driver.consumer_heartbeat("a", epoch, **rest).assignment is None


def test_unchanged_member_is_not_written(driver):
    epoch = driver.consumer_heartbeat("a").member_epoch
    written = len(driver.log)
    driver.consumer_heartbeat("a", epoch)
    assert len(driver.log) == written
    driver.consumer_heartbeat("a", epoch, client="another")
    assert len(driver.log) == written + 1


@pytest.mark.parametrize(("more", "is_new"), [({}, 0), ({"topics": ["u"]}, 1), ({"regex": "t"}, 1)])
def test_changed_subscription_begins_new_group_epoch(driver, more, is_new):
    epoch = driver.consumer_heartbeat("a").member_epoch
    before = driver.shard.store.of("consumer")["g"].epoch
    driver.consumer_heartbeat("a", epoch, client="another", **more)
    assert driver.shard.store.of("consumer")["g"].epoch == before + is_new


def test_unchanged_rejoin_changes_nothing(driver):
    driver.consumer_heartbeat("a")
    before = driver.shard.store.of("consumer")["g"].epoch
    driver.consumer_heartbeat("a")
    assert driver.shard.store.of("consumer")["g"].epoch == before


@pytest.mark.parametrize("subscription", [{"topics": ["t"]}, {"regex": "t.*"}])
def test_offsets_of_subscribed_topics_are_not_deleted(driver, subscription):
    driver.topics.set("u", 1)
    driver.consumer_heartbeat("a", **subscription)
    codes = driver.shard.delete_offsets(
        "g", [TopicPartition("t", 0), TopicPartition("u", 0)]
    ).response
    assert codes == {("t", 0): ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ("u", 0): ErrorCode.NONE}


# -- deadlines of a coordinator that takes over


def reloaded(driver) -> Driver:
    return Driver(log=driver.log, now=driver.now, settings=driver.settings, topics=driver.topics)


def test_revoking_member_gets_whole_timeout_after_failover(driver):
    epoch = driver.consumer_heartbeat("a", rebalance_ms=5_000).member_epoch
    driver.consumer_heartbeat("b")
    driver.consumer_heartbeat("a", epoch)
    after = reloaded(driver)
    assert TimerKey(HeartbeatTimer.REVOCATION, "g", "a") in after.shard._timers
    assert TimerKey(HeartbeatTimer.REVOCATION, "g", "b") not in after.shard._timers
    after.advance(5)
    assert set(after.shard.store.of("consumer")["g"].members) == {"b"}


def test_classic_member_rejoins_instead_of_revoking(driver):
    """For a classic member the deadline to revoke is the deadline to join again."""
    driver.join("a", version=3)
    driver.advance(3)
    a = driver.answers["a"].member_id
    driver.sync("sync", a, 1, {a: assignment(t=[0, 1, 2, 3])})
    driver.consumer_heartbeat("n")
    driver.join("a again", a, version=3, protocols=[("range", owning([0, 1, 2, 3]))])
    revoking = TimerKey(HeartbeatTimer.REVOCATION, "g", a)
    for coordinator in (driver, reloaded(driver)):
        found = coordinator.shard.store.of("consumer")["g"].members[a]
        assert found.state is MemberState.UNREVOKED_PARTITIONS
        assert revoking not in coordinator.shard._timers


def owning(partitions):
    """Returns version 1 of a subscription to `t`, with these owned partitions."""
    owned = b"".join(partition.to_bytes(4, "big") for partition in partitions)
    topics = (1).to_bytes(4, "big") + b"\0\1t" + len(partitions).to_bytes(4, "big") + owned
    return b"\0\1" + subscription(["t"])[2:] + topics


def test_due_target_is_computed_by_next_coordinator(driver):
    driver.settings = replace(driver.settings, assignment_interval_ms=3_000)
    for name in "a", "b":
        driver.consumer_heartbeat(name)
    after = reloaded(driver)
    group = after.shard.store.of("consumer")["g"]
    assert group.assignment_epoch < group.epoch
    assert after.advance(3) == [1.0, 3.0]
    group = after.shard.store.of("consumer")["g"]
    assert group.assignment_epoch == group.epoch


def test_empty_group_has_no_work_after_failover(driver):
    driver.settings = replace(driver.settings, assignment_interval_ms=3_000)
    driver.consumer_heartbeat("a")
    driver.consumer_heartbeat("a", -1)
    assert TimerKey(HeartbeatTimer.TARGET, "g") not in reloaded(driver).shard._timers


def test_failed_write_is_retried(driver):
    driver.settings = replace(driver.settings, assignment_interval_ms=1_000)
    for name in "a", "b":
        driver.consumer_heartbeat(name)
    driver.failing = ErrorCode.NOT_ENOUGH_REPLICAS
    driver.advance(1)
    driver.failing = None
    assert driver.advance(1) == [2.0]
    group = driver.shard.store.of("consumer")["g"]
    assert group.assignment_epoch == group.epoch


# -- conversion of a classic group


def upgraded(driver, protocols, assignment: bytes):
    """Returns the member of a classic group after the first member of the consumer protocol has joined."""
    driver.join("a", version=3, protocols=protocols)
    driver.advance(3)
    joined = driver.answers["a"]
    driver.sync("sync", joined.member_id, joined.generation_id, {joined.member_id: assignment})
    driver.consumer_heartbeat("n")
    return driver.shard.store.of("consumer")["g"].members[joined.member_id]


def assignment(**topics: list[int]) -> bytes:
    """Returns version 0 of the consumer protocol's assignment."""
    out = b"\0\0" + len(topics).to_bytes(4, "big")
    for name, partitions in topics.items():
        out += len(name).to_bytes(2, "big") + name.encode() + len(partitions).to_bytes(4, "big")
        out += b"".join(partition.to_bytes(4, "big") for partition in partitions)
    return out + b"\xff\xff\xff\xff"


def test_upgraded_member_keeps_partitions_of_existing_topics(driver):
    driver.topics.set("u", 1)
    protocols = [("range", subscription(["t", "gone", "u"]))]
    found = upgraded(driver, protocols, assignment(t=[0, 1], gone=[0], u=[]))
    assert {topic: set(owned) for topic, owned in found.assigned.items()} == {topic_id("t"): {0, 1}}


@pytest.mark.parametrize(("rack", "known"), [(b"\0\1r", "r"), (b"\0\0", None)])
def test_upgraded_member_keeps_named_rack(driver, rack, known):
    version_3 = b"\0\3" + subscription(["t"])[2:] + bytes(4) + b"\xff\xff\xff\xff" + rack
    found = upgraded(driver, [("range", version_3)], assignment(t=[0]))
    assert found.rack_id == known
