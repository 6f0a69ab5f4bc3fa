"""ConsumerGroupHeartbeat: the bounds of its fields, omitted fields, and changed subscriptions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.broker.groups.driver import Driver, subscription, topic_id
from trimaran.broker.groups.consumer import heartbeat
from trimaran.broker.groups.consumer.heartbeat import check_request
from trimaran.broker.groups.consumer.member import ConsumerMember
from trimaran.broker.groups.consumer.settings import (
    MEMBER_ID_CHARACTERS_MAX,
    ConsumerGroupSettings,
)
from trimaran.broker.groups.heartbeating.operation import HeartbeatTimer
from trimaran.broker.groups.heartbeating.settings import (
    RECONCILING_HEARTBEATS_PER_SECOND_MAX,
    RECONCILING_INTERVAL_MS_MIN,
    SUBSCRIPTION_BYTES_MAX,
)
from trimaran.broker.groups.outputs import TimerKey
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest


@pytest.fixture
def driver():
    return Driver()


def group_of(driver):
    return driver.shard.store.of("consumer")["g"]


def joining(**other):
    fields = {
        "group_id": "g",
        "member_id": "a",
        "member_epoch": 0,
        "instance_id": None,
        "rack_id": None,
        "rebalance_timeout_ms": 1,
        "subscribed_topic_names": ["t"],
        "subscribed_topic_regex": None,
        "server_assignor": None,
        "topic_partitions": [],
    }
    return ConsumerGroupHeartbeatRequest(**fields | other)


def test_refused_first_heartbeat_leaves_no_work():
    """Otherwise refused names would fill the memory."""
    driver = Driver(settings=ConsumerGroupSettings(members_max=0))
    assert driver.consumer_heartbeat("a") is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert driver.consumers._works == {}


# -- bounds


@pytest.mark.parametrize(
    "allowed",
    [
        {"member_id": "m" * MEMBER_ID_CHARACTERS_MAX},
        {"subscribed_topic_names": ["t" * (SUBSCRIPTION_BYTES_MAX // 2)] * 2},
        {"server_assignor": "range"},
        {"server_assignor": None},
        {"subscribed_topic_names": None, "subscribed_topic_regex": "t"},
        {"subscribed_topic_names": [], "subscribed_topic_regex": None},
        {"subscribed_topic_names": None, "subscribed_topic_regex": ""},
    ],
    ids=lambda one: next(iter(one)),
)
def test_values_within_bounds_are_accepted(allowed):
    check_request(joining(**allowed), 1, ("uniform", "range"))


def test_joining_member_must_own_nothing():
    with pytest.raises(KafkaError, match="TopicPartitions must be empty"):
        check_request(joining(topic_partitions=None), 1, ("uniform",))


@pytest.mark.parametrize(("version", "epoch"), [(0, 1), (0, -1), (1, 1), (1, 0)])
def test_only_version_0_joins_without_an_id(version, epoch):
    with pytest.raises(KafkaError, match="MemberId can't be empty"):
        check_request(joining(member_id="", member_epoch=epoch), version, ("uniform",))
    check_request(joining(member_id=""), 0, ("uniform",))


def test_joining_member_must_name_its_subscription():
    with pytest.raises(KafkaError, match="must be non-null when"):
        check_request(joining(subscribed_topic_names=None), 1, ("uniform",))


@pytest.mark.parametrize("field", ["group_id", "member_id", "instance_id", "rack_id"])
@pytest.mark.parametrize("blank", ["", " "])
def test_blank_name_counts_as_missing(field, blank):
    with pytest.raises(KafkaError, match="can't be empty"):
        check_request(joining(**{field: blank}), 1, ("uniform",))


def test_member_may_subscribe_to_nothing(driver):
    answer = driver.consumer_heartbeat("a", topics=[])
    assert (answer.error_code, answer.assignment.topic_partitions) == (0, [])
    assert driver.consumer_heartbeat("a", answer.member_epoch, topics=["t"]).error_code == 0
    assert driver.consumer_heartbeat("b", regex="").error_code == 0
    assert set(group_of(driver).members) == {"a", "b"}


# -- omitted fields keep their values


def test_rack_assignor_and_instance_stay_as_they_were(driver):
    epoch = driver.consumer_heartbeat("a", instance="i", rack="r", assignor="range").member_epoch
    driver.consumer_heartbeat("a", epoch, instance="i", client="another")
    member = group_of(driver).members["a"]
    assert (member.instance_id, member.rack_id, member.assignor) == ("i", "r", "range")
    assert member.client_id == "another"


def test_member_is_exactly_as_last_stated(driver):
    """The member's topics are sorted, once each; omitted fields keep their values."""
    of_request = {
        "topics": ["u", "t", "u"],
        "regex": "t.*",
        "instance": "i",
        "rack": "r",
        "assignor": "range",
        "rebalance_ms": 5_000,
    }
    epoch = driver.consumer_heartbeat("a", client="c", **of_request).member_epoch
    first = group_of(driver).members["a"]
    assert first == ConsumerMember(
        "a",
        instance_id="i",
        rack_id="r",
        client_id="c",
        client_host="/127.0.0.1",
        rebalance_timeout_ms=5_000,
        subscribed_names=("t", "u"),
        regex="t.*",
        assignor="range",
        epoch=epoch,
        assigned={topic_id("t"): dict.fromkeys(range(4), epoch)},
    )
    for field, value, stored in (
        ("topics", ["u", "t"], {}),
        ("rack", "r2", {"rack_id": "r2"}),
        ("assignor", "uniform", {"assignor": "uniform"}),
        ("rebalance_ms", 6_000, {"rebalance_timeout_ms": 6_000}),
    ):
        before = epoch
        epoch = driver.consumer_heartbeat("a", before, client="c", **{field: value}).member_epoch
        previous = before if epoch > before else first.previous_epoch
        first = replace(first, **stored, epoch=epoch, previous_epoch=previous)
        assert group_of(driver).members["a"] == first


def test_rejoining_member_gets_its_assignment(driver):
    driver.consumer_heartbeat("a", regex="t.*")
    first = driver.consumer_heartbeat("a", regex="t.*")
    again = driver.consumer_heartbeat("a", regex="t.*")
    assert again.assignment == first.assignment
    assert len(again.assignment.topic_partitions) == 1


def test_previous_epoch_repeats_the_assignment(driver):
    first = driver.consumer_heartbeat("a").member_epoch
    driver.topics.set("t", 5)
    told = driver.consumer_heartbeat("a", first)  # the response is lost
    assert told.member_epoch == first + 1
    again = driver.consumer_heartbeat("a", first, owned={"t": [0, 1, 2, 3]})
    assert (again.member_epoch, again.assignment) == (first + 1, told.assignment)
    assert again.assignment.topic_partitions[0].partitions == [0, 1, 2, 3, 4]
    assert driver.consumer_heartbeat("a", first + 1, owned={}).assignment is None


@pytest.mark.parametrize("owned", [None, {}, {"t": [2, 3]}])
def test_freed_partitions_are_repeated_unless_confirmed(driver, owned):
    """A member without its whole target gets freed partitions without a new epoch."""
    first = driver.consumer_heartbeat("a").member_epoch
    epoch = driver.consumer_heartbeat("b").member_epoch
    driver.consumer_heartbeat("a", first)
    driver.consumer_heartbeat("a", first, owned={"t": [0, 1]})
    told = driver.consumer_heartbeat("b", epoch)  # late: nothing waits for this response
    assert told.member_epoch == epoch
    assert told.assignment.topic_partitions[0].partitions == [2, 3]
    again = driver.consumer_heartbeat("b", epoch, owned=owned)
    assert again.assignment == (None if owned else told.assignment)
    assert driver.consumer_heartbeat("b", epoch).assignment is None


# -- changed subscriptions


def test_topics_are_hashed_once_per_version(driver, monkeypatch):
    found, asked = heartbeat.metadata_hash, []

    def noted(names, topics):
        asked.append(topics.version)
        return found(names, topics)

    epoch = driver.consumer_heartbeat("a").member_epoch
    monkeypatch.setattr(heartbeat, "metadata_hash", noted)
    for _ in range(3):
        driver.consumer_heartbeat("a", epoch)
    driver.topics.set("u", 1)
    for _ in range(3):
        driver.consumer_heartbeat("a", epoch)
    assert len(asked) == len(set(asked)) == 2


@pytest.mark.parametrize(("epoch", "is_kept"), [(2, True), (-1, False)])
def test_work_is_dropped_with_an_unwritten_leave(driver, epoch, is_kept):
    driver.consumer_heartbeat("a")
    before = driver.consumers._works["g"]
    driver.failing = ErrorCode.NOT_COORDINATOR
    refused = driver.consumer_heartbeat("a", epoch, topics=["u"] if epoch > 0 else None)
    assert refused is ErrorCode.NOT_COORDINATOR
    assert (driver.consumers._works.get("g") is before) is is_kept


def test_missing_topics_may_be_subscribed(driver):
    epoch = driver.consumer_heartbeat("a", topics=["x"]).member_epoch
    assert driver.consumer_heartbeat("a", epoch, topics=["y"]).member_epoch == epoch + 1


def test_idle_classic_member_is_new_only_once(driver):
    driver.consumer_heartbeat("z")
    before = group_of(driver).epoch
    nothing = [("range", subscription([]))]
    driver.join("first", version=3, protocols=nothing)
    assert group_of(driver).epoch == before + 1
    member_id = driver.answers["first"].member_id
    driver.join("again", member_id, version=3, protocols=nothing, client="another")
    assert group_of(driver).members[member_id].client_id == "another"
    assert group_of(driver).epoch == before + 1


def test_unsubscribed_partitions_are_revoked_at_once(driver):
    """This does not wait until the next target is due."""
    driver.settings = replace(driver.settings, assignment_interval_ms=10_000)
    driver.topics.set("u", 1)
    epoch = driver.consumer_heartbeat("a", topics=["t", "u"]).member_epoch
    answer = driver.consumer_heartbeat("a", epoch, topics=["u"])
    told = {
        topic_partition.topic_id: topic_partition.partitions
        for topic_partition in answer.assignment.topic_partitions
    }
    assert told == {topic_id("u"): [0]}
    assert answer.member_epoch == epoch
    revoking = TimerKey(HeartbeatTimer.REVOCATION, "g", "a")
    assert revoking in driver.shard._timers
    driver.consumer_heartbeat("a", epoch, owned={"u": [0]})
    assert revoking not in driver.shard._timers


def test_entirely_new_subscription_revokes_at_once(driver):
    driver.settings = replace(driver.settings, assignment_interval_ms=10_000)
    driver.topics.set("u", 1)
    epoch = driver.consumer_heartbeat("a").member_epoch
    answer = driver.consumer_heartbeat("a", epoch, topics=["u"])
    assert answer.assignment is not None
    assert answer.assignment.topic_partitions == []


def test_pattern_of_another_member_changes_the_subscription(driver):
    """The subscription changes although the pattern matches no other topics and is already resolved."""
    epoch = driver.consumer_heartbeat("a", regex="x.*").member_epoch
    driver.consumer_heartbeat("b", regex="y.*")
    epoch = driver.consumer_heartbeat("a", epoch).member_epoch
    assert driver.consumer_heartbeat("a", epoch, regex="y.*").member_epoch == epoch + 1


def test_additional_subscription_waits_for_target(driver):
    driver.settings = replace(driver.settings, assignment_interval_ms=10_000)
    driver.topics.set("u", 1)
    epoch = driver.consumer_heartbeat("a").member_epoch
    answer = driver.consumer_heartbeat("a", epoch, topics=["t", "u"])
    assert answer.assignment is None
    assert group_of(driver).members["a"].state.name == "STABLE"


# -- the interval until the next heartbeat


@pytest.mark.parametrize(
    ("members", "expected_ms"),
    [
        (1, RECONCILING_INTERVAL_MS_MIN),
        (RECONCILING_INTERVAL_MS_MIN * RECONCILING_HEARTBEATS_PER_SECOND_MAX // 1000 + 50, 600),
        (RECONCILING_HEARTBEATS_PER_SECOND_MAX * 6, 5_000),
    ],
)
def test_reconciling_members_have_short_heartbeat_intervals(members, expected_ms):
    driver = Driver()
    driver.consumer_heartbeat("a")
    group = group_of(driver)
    one = group.members["a"]
    group.members = group.members.update(
        {f"m{n}": replace(one, id=f"m{n}") for n in range(1, members)}
    )
    assert driver.consumer_heartbeat("a", 2).heartbeat_interval_ms == expected_ms


def test_heartbeat_interval_has_configured_minimum(driver):
    driver.settings = replace(driver.settings, reconciling_interval_ms_min=3_000)
    assert driver.consumer_heartbeat("a").heartbeat_interval_ms == 3_000


def test_member_awaiting_its_pattern_is_reconciling(driver):
    driver.matching_later = True
    assert driver.consumer_heartbeat("a", regex="t.*").heartbeat_interval_ms < 5_000


def test_member_waiting_for_others_stays_reconciling(driver):
    driver.consumer_heartbeat("a")
    epoch = driver.consumer_heartbeat("b").member_epoch
    driver.advance(20)
    assert driver.consumer_heartbeat("b", epoch).heartbeat_interval_ms < 5_000


def test_group_with_due_target_is_reconciling(driver):
    driver.settings = replace(driver.settings, assignment_interval_ms=60_000)
    epoch = driver.consumer_heartbeat("a").member_epoch
    driver.advance(40)
    assert driver.consumer_heartbeat("a", epoch).heartbeat_interval_ms == 5_000
    driver.consumer_heartbeat("b")
    assert driver.consumer_heartbeat("a", epoch).heartbeat_interval_ms < 5_000
