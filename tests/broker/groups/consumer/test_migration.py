"""Migration from one protocol to the other: when it is allowed, and what is kept."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.broker.groups.consumer.test_rules import assignment
from tests.broker.groups.driver import Driver, FakeTopics, subscription, topic_id
from trimaran.broker.groups.classic.group import GroupState
from trimaran.broker.groups.classic.operation import ClassicTimer
from trimaran.broker.groups.consumer.member import ConsumerMember
from trimaran.broker.groups.consumer.migration import classic_assignment, classic_metadata
from trimaran.broker.groups.consumer.operation import ConsumerTimer
from trimaran.broker.groups.heartbeating.operation import HeartbeatTimer
from trimaran.broker.groups.outputs import Timer, TimerKey
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    decode_assignment,
    encode_assignment,
)

E = ErrorCode


@pytest.fixture
def driver():
    return Driver()


def classic_group(driver, *names, assigned=None, session_ms=10_000):
    """Returns a classic group with static members in a stable generation 1."""
    for name in names:
        driver.join(name, instance=name, session_ms=session_ms)
    driver.advance(3)
    ids = {name: driver.answers[name].member_id for name in names}
    given = {ids[name]: mine for name, mine in (assigned or {}).items()}
    for name in names:
        driver.sync(f"sync {name}", ids[name], 1, given, instance=name)
    return ids


def consumer(driver):
    return driver.shard.store.of("consumer")["g"]


# -- classic to consumer


@pytest.mark.parametrize(("members_max", "expected"), [(1, E.GROUP_ID_NOT_FOUND), (2, None)])
def test_group_is_upgraded_while_below_size_limit(driver, members_max, expected):
    classic_group(driver, "a")
    driver.settings = replace(driver.settings, members_max=members_max)
    answer = driver.consumer_heartbeat("n")
    if expected is None:
        assert len(consumer(driver).members) == 2
    else:
        assert answer is expected
        assert driver.groups["g"].state is GroupState.STABLE


def test_upgrade_keeps_epoch_and_resolves_topics(driver):
    ids = classic_group(driver, "a", assigned={"a": assignment(t=[0, 1, 2, 3])})
    answer = driver.consumer_heartbeat("n")
    assert answer.member_epoch == consumer(driver).epoch == 2
    assert consumer(driver).metadata_hash != 0
    member = consumer(driver).members[ids["a"]]
    assert (member.epoch, member.previous_epoch) == (1, 1)
    assert member.assigned == {topic_id("t"): dict.fromkeys(range(4), 1)}


def test_upgraded_subscription_is_sorted_without_duplicates(driver):
    names = [f"t{number}" for number in (5, 3, 9, 1, 7, 3, 5)]
    protocols = [("range", subscription(names))]
    driver.join("a", version=3, protocols=protocols)
    driver.advance(3)
    member_id = driver.answers["a"].member_id
    driver.sync("s", member_id, 1, {member_id: b""})
    driver.consumer_heartbeat("n")
    assert consumer(driver).members[member_id].subscribed_names == ("t1", "t3", "t5", "t7", "t9")


def test_duplicate_topic_in_classic_assignment_is_merged(driver):
    """Each partition keeps its owner: no other member gets a partition that is still being read."""
    named = [ConsumerProtocolAssignmentTopicPartition(topic="t", partitions=[n]) for n in (0, 1)]
    both = encode_assignment(ConsumerProtocolAssignment(assigned_partitions=named), 0)
    ids = classic_group(driver, "a", assigned={"a": both})
    driver.consumer_heartbeat("n")
    owners = consumer(driver).owners[topic_id("t")]
    assert {owners[partition] for partition in (0, 1)} == {ids["a"]}


def test_upgraded_group_without_generation_has_valid_epoch(driver):
    """The group waits for its first members; a joining member sends epoch 0."""
    driver.settings = replace(driver.settings, assignment_interval_ms=1_000)
    driver.join("a", instance="a")
    assert driver.groups["g"].generation == 0
    answer = driver.consumer_heartbeat("n")
    assert answer.member_epoch == 1
    assert {member.epoch for member in consumer(driver).members.values()} == {1}
    assert (consumer(driver).epoch, len(consumer(driver).members)) == (2, 2)


def test_session_timeout_is_that_of_member(driver):
    ids = classic_group(driver, "a", "b", session_ms=20_000)
    driver.consumer_heartbeat("n")
    driver.advance(15)
    driver.consumer_heartbeat("n", 2)
    assert driver.heartbeat(ids["a"], 1, instance="a") is E.REBALANCE_IN_PROGRESS
    driver.advance(6)
    assert set(consumer(driver).members) == {ids["a"], "n"}


def test_departing_member_has_only_new_groups_timers(driver):
    ids = classic_group(driver, "a", session_ms=20_000)
    driver.consumer_heartbeat("n")
    assert TimerKey(Timer.SESSION, "g", ids["a"]) in driver.shard._timers
    driver.leave((ids["a"], "a"))
    assert TimerKey(Timer.SESSION, "g", ids["a"]) not in driver.shard._timers


def test_empty_classic_group_leaves_nothing_behind(driver):
    ids = classic_group(driver, "a")
    driver.leave((ids["a"], "a"))
    assert "g" in driver.replayed().of("classic")
    answer = driver.consumer_heartbeat("n")
    assert answer.member_epoch == 2
    assert "g" not in driver.replayed().of("classic")


def test_group_with_unwritten_emptiness_restarts(driver):
    """No remaining member knows its generations, as in Kafka's `maybeDeleteEmptyClassicGroup`."""
    ids = classic_group(driver, "a")
    driver.failing = E.NOT_ENOUGH_REPLICAS
    driver.leave((ids["a"], "a"))
    driver.failing = None
    assert driver.groups["g"].state is GroupState.EMPTY
    assert driver.replayed().of("classic")["g"].members
    assert driver.consumer_heartbeat("n").member_epoch == 2
    assert set(consumer(driver).members) == {"n"}


def test_rebalance_without_members_continues_from_generation(driver):
    """A client has a member id and may still join: the group is not empty, nor was it stored as empty."""
    classic_group(driver, "a")
    driver.join("b")
    driver.join("b again", driver.answers["b"].member_id)
    driver.join("c", session_ms=60_000)
    driver.advance(10)
    driver.leave((driver.answers["b"].member_id, None))
    group = driver.groups["g"]
    assert (group.state, group.generation) == (GroupState.PREPARING_REBALANCE, 1)
    assert not group.members
    assert driver.consumer_heartbeat("n").member_epoch == consumer(driver).epoch == 2
    driver.join("c again", driver.answers["c"].member_id)
    assert driver.answers["c again"].generation_id == 3


def test_only_joining_member_upgrades_the_group(driver):
    classic_group(driver, "a")
    assert driver.consumer_heartbeat("n", 1) is E.GROUP_ID_NOT_FOUND
    assert driver.consumer_heartbeat("n", -1) is E.GROUP_ID_NOT_FOUND
    assert driver.consumer_heartbeat("n", 3, group="new") is E.GROUP_ID_NOT_FOUND


# -- consumer to classic


def test_last_consumer_leaving_makes_group_classic(driver):
    ids = classic_group(driver, "a", assigned={"a": assignment(t=[0, 1, 2, 3])})
    driver.consumer_heartbeat("n", regex="t.*")
    driver.heartbeat(ids["a"], 1, instance="a")  # the member must join again
    assert TimerKey(ConsumerTimer.CLASSIC_JOIN, "g", ids["a"]) in driver.shard._timers
    driver.consumer_heartbeat("n", -1)
    found = driver.replayed()
    assert "g" in found.of("classic")
    assert "g" not in found.of("consumer") or found.of("consumer")["g"].is_gone
    timers = driver.shard._timers
    for kind in (HeartbeatTimer.REVOCATION, ConsumerTimer.CLASSIC_JOIN, ConsumerTimer.CLASSIC_SYNC):
        assert TimerKey(kind, "g", ids["a"]) not in timers
    assert TimerKey(HeartbeatTimer.TARGET, "g") not in timers
    assert TimerKey(Timer.SESSION, "g", ids["a"]) in timers
    assert TimerKey(ClassicTimer.DOWNGRADE, "g") in timers
    driver.advance(0)
    assert driver.groups["g"].state is GroupState.PREPARING_REBALANCE


def test_downgraded_rebalance_survives_fail_over(driver):
    """The next coordinator resumes the rebalance that this one began; until then members continue as before."""
    ids = classic_group(driver, "a", assigned={"a": assignment(t=[0, 1, 2, 3])})
    driver.consumer_heartbeat("n")
    driver.join("again", ids["a"], instance="a")
    driver.consumer_heartbeat("n", -1)
    again = Driver(log=driver.log)
    generation = again.groups["g"].generation
    assert again.heartbeat(ids["a"], generation, instance="a") is E.REBALANCE_IN_PROGRESS
    again.join("joined", ids["a"], instance="a")
    joined = again.answers["joined"]
    again.sync("synced", ids["a"], joined.generation_id, {ids["a"]: b"all"}, instance="a")
    later = Driver(log=again.log)
    assert later.heartbeat(ids["a"], joined.generation_id, instance="a") is E.NONE


def test_postponed_work_ends_with_group(driver):
    classic_group(driver, "a")
    driver.settings = replace(driver.settings, assignment_interval_ms=60_000)
    driver.consumer_heartbeat("n")
    driver.consumer_heartbeat("m")
    assert TimerKey(HeartbeatTimer.TARGET, "g") in driver.shard._timers
    driver.consumer_heartbeat("n", -1)
    driver.consumer_heartbeat("m", -1)
    assert TimerKey(HeartbeatTimer.TARGET, "g") not in driver.shard._timers


@pytest.mark.parametrize(("members_max", "becomes"), [(1, False), (2, True)])
def test_downgrade_needs_group_within_size_limit(driver, members_max, becomes):
    classic_group(driver, "a", "b")
    driver.consumer_heartbeat("n")
    driver.settings = replace(driver.settings, classic_members_max=members_max)
    driver.consumer_heartbeat("n", -1)
    assert ("g" in driver.groups) is becomes


def test_empty_consumer_group_stays_consumer_group(driver):
    driver.consumer_heartbeat("n")
    driver.consumer_heartbeat("n", -1)
    assert "g" not in driver.groups
    assert consumer(driver).has_epoch


@pytest.mark.parametrize(
    ("version", "told"), [(3, E.NOT_ENOUGH_REPLICAS), (4, E.MEMBER_ID_REQUIRED)]
)
def test_empty_consumer_group_stays_if_end_unwritten(driver, version, told):
    """Otherwise a classic group would hide it, and a consumer group converted from that one would begin at epoch 1."""
    driver.consumer_heartbeat("n")
    driver.consumer_heartbeat("n", -1)
    epoch = consumer(driver).epoch
    driver.failing = E.NOT_ENOUGH_REPLICAS
    driver.join("a", version=version)
    driver.failing = None
    assert driver.answers["a"].error_code == told
    assert "g" not in driver.groups
    assert driver.deadline() == driver.limits.expiry_interval_ms / 1000, "a timer is left"
    assert driver.consumer_heartbeat("n").member_epoch == consumer(driver).epoch == epoch + 1


def test_uncommitted_end_remains_in_the_log(driver):
    driver.consumer_heartbeat("n")
    driver.consumer_heartbeat("n", -1)
    driver.holding = True
    driver.join("a")
    driver.advance(driver.limits.commit_timeout_ms / 1000)
    assert driver.answers["a"].member_id in driver.groups["g"].pending
    assert "g" not in driver.shard.store.of("consumer")


def test_pattern_restarts_if_last_consumer_cannot_leave(driver):
    driver.matching_later = True
    classic_group(driver, "a")
    driver.consumer_heartbeat("n", regex="t.*")
    driver.failing = E.NOT_ENOUGH_REPLICAS
    assert driver.consumer_heartbeat("n", -1) is E.NOT_ENOUGH_REPLICAS
    driver.failing = None
    driver.consumer_heartbeat("m", regex="t.*")
    driver.match()
    assert set(consumer(driver).regexes["t.*"].topics) == {"t"}


# -- responses to members of the classic protocol


@pytest.mark.parametrize(("subscribed", "told"), [(0, 0), (1, 1), (3, 3), (9, 3)])
def test_assignment_has_version_of_subscription(subscribed, told):
    metadata = subscribed.to_bytes(2, "big") + subscription(["t"])[2:]
    member = ConsumerMember(
        "a",
        assigned={topic_id("t"): {1: 1, 0: 1}, topic_id("gone"): {0: 1}},
        classic=classic_metadata(10_000, (("range", metadata),)),
    )
    found = classic_assignment(member, FakeTopics(t=2))
    assert int.from_bytes(found[:2], "big") == told
    (topic,) = decode_assignment(found).assigned_partitions
    assert (topic.topic, topic.partitions) == ("t", [0, 1])
