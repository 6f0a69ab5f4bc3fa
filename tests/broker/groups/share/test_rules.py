"""Share groups beside other kinds, and the bounds of their requests."""

from __future__ import annotations

import pytest

from tests.broker.groups.driver import topic_id
from tests.broker.groups.share.driver import ShareDriver
from trimaran.broker.groups import memory
from trimaran.broker.groups.heartbeating.settings import SUBSCRIPTION_BYTES_MAX
from trimaran.broker.groups.outputs import Timer, TimerKey
from trimaran.broker.groups.share.describe import refused
from trimaran.broker.groups.share.heartbeat import check_member_id, check_request
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from trimaran.wire.messages.share_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from trimaran.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

E = ErrorCode


@pytest.fixture
def driver():
    return ShareDriver()


def joining(**other):
    fields = {
        "group_id": "g",
        "member_id": "a",
        "member_epoch": 0,
        "rack_id": None,
        "subscribed_topic_names": ["t"],
    }
    return ShareGroupHeartbeatRequest(**fields | other)


# -- the request


@pytest.mark.parametrize(
    "allowed",
    [
        {"subscribed_topic_names": ["t" * (SUBSCRIPTION_BYTES_MAX // 2)] * 2},
        {"member_epoch": -1, "subscribed_topic_names": None},
        {"member_epoch": 1, "subscribed_topic_names": []},
    ],
    ids=lambda one: next(iter(one)),
)
def test_values_within_bounds_are_accepted(allowed):
    check_request(joining(**allowed))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"member_id": " "}, "MemberId can't be empty."),
        ({"group_id": " "}, "GroupId can't be empty."),
        ({"rack_id": ""}, "RackId can't be empty."),
        ({"subscribed_topic_names": None}, "SubscribedTopicNames must be set in first request."),
        ({"subscribed_topic_names": []}, "SubscribedTopicNames must be set in first request."),
        ({"member_epoch": -2}, "MemberEpoch is invalid."),
        (
            {"subscribed_topic_names": ["t" * SUBSCRIPTION_BYTES_MAX, "u"]},
            "The subscription is too large.",
        ),
    ],
)
def test_values_out_of_bounds_are_refused(wrong, message):
    with pytest.raises(KafkaError) as caught:
        check_request(joining(**wrong))
    assert (caught.value.code, caught.value.message) == (E.INVALID_REQUEST, message)


@pytest.mark.parametrize("wrong", ["", "m" * 37])
def test_length_of_member_ids_is_bounded(wrong):
    with pytest.raises(KafkaError, match="Invalid member id in the request") as caught:
        check_member_id(wrong)
    assert caught.value.code is E.INVALID_REQUEST
    check_member_id("m")
    check_member_id("m" * 36)


# -- the bounds of groups


def test_group_is_full_at_its_maximum_size(driver):
    driver.share_settings = type(driver.share_settings)(members_max=2)
    assert driver.beat("a").error_code == driver.beat("b").error_code == 0
    assert driver.beat("c") is E.GROUP_MAX_SIZE_REACHED
    assert driver.beat("b", 0).error_code == 0
    driver.check_account()


def test_member_without_room_is_refused(driver, monkeypatch):
    monkeypatch.setattr(memory, "PRINCIPAL_BYTES_MAX", 5_000)
    assert driver.beat("a").error_code == 0
    assert driver.beat("b", topics=["t" * 1_000]) is E.GROUP_MAX_SIZE_REACHED
    assert driver.beat("b", topics=["t"], principal="User:b").error_code == 0
    assert driver.beat("a", 2, topics=["t" * 3_000]) is E.GROUP_MAX_SIZE_REACHED
    driver.check_account()


def test_new_group_without_room_is_refused(driver, monkeypatch):
    driver.beat("a")
    monkeypatch.setattr(memory, "KNOWN_BYTES_MAX", driver.shard.account.known_bytes)
    assert driver.beat("a", group="h") is E.GROUP_MAX_SIZE_REACHED
    assert driver.beat("b").error_code == 0


# -- other kinds


def test_group_of_another_kind_is_no_share_group(driver):
    driver.join("join", group="classic", version=3)
    driver.consumer_heartbeat("a", group="consumer")
    driver.commit_offset(1, group="simple")
    for group in ("classic", "consumer", "simple"):
        for epoch in (0, 1, -1):
            assert driver.beat("a", epoch, group=group) is E.GROUP_ID_NOT_FOUND
        with pytest.raises(KafkaError, match=f"Group {group} is not a share group"):
            driver.shares.find(group)
    with pytest.raises(KafkaError, match="Group other not found"):
        driver.shares.find("other")


def test_share_group_admits_no_other_members(driver):
    driver.beat("a")
    for member_id, epoch in (("a", 0), ("a", 1), ("b", 0), ("a", -1)):
        assert driver.consumer_heartbeat(member_id, epoch) is E.GROUP_ID_NOT_FOUND
    driver.join("join")
    assert driver.answers["join"].error_code == E.INCONSISTENT_GROUP_PROTOCOL
    assert driver.answers["join"].member_id == ""
    driver.sync("sync", "a", 1)
    assert driver.answers["sync"].error_code == E.UNKNOWN_MEMBER_ID
    assert driver.heartbeat("a", 1) is E.UNKNOWN_MEMBER_ID
    driver.beat("a", -1)
    driver.join("again")
    assert driver.answers["again"].error_code == E.INCONSISTENT_GROUP_PROTOCOL
    driver.check_account()


def test_share_group_has_no_offsets(driver):
    driver.beat("a")
    assert driver.commit_offset(5) is E.GROUP_ID_NOT_FOUND
    with pytest.raises(KafkaError) as refused_:
        driver.shard.delete_offsets("g", [])
    assert refused_.value.code is E.GROUP_ID_NOT_FOUND
    topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    request = OffsetFetchRequestGroup(group_id="g", topics=topics)
    [topic] = driver.shard.fetch_offsets(request).response.topics
    [partition] = topic.partitions
    assert (partition.error_code, partition.committed_offset) == (E.NONE, -1)


def test_empty_group_never_expires(driver):
    driver.beat("a")
    driver.beat("a", -1)
    driver.advance(30 * 24 * 3600)
    assert driver.group() is not None
    assert driver.submit(driver.shard.delete_groups(["g"])) == {"g": E.NONE}
    assert not driver.shard.store.knows("g")


def test_group_with_members_is_not_deleted(driver):
    driver.beat("a")
    assert driver.submit(driver.shard.delete_groups(["g"])) == {"g": E.NON_EMPTY_GROUP}
    assert driver.group() is not None


# -- descriptions


def test_group_is_listed_by_its_type_and_state(driver):
    driver.beat("a")
    driver.beat("a", group="h")
    driver.beat("a", -1, group="h")
    listed = driver.shard.list_groups(driver.shard.group_ids(), (), ("Share",))
    assert [(found.group_id, found.group_state, found.group_type, found.protocol_type) for found in listed] == [
        ("g", "Stable", "share", "share"),
        ("h", "Empty", "share", "share"),
    ]  # fmt: skip
    assert driver.shard.list_groups(driver.shard.group_ids(), ("stable",), ("share",)) == listed[:1]
    described, members = driver.shard.kind_of("g").described("g", 6)
    assert (described.error_code, list(members)) == (E.GROUP_ID_NOT_FOUND, [])


def test_members_are_described_with_their_partitions(driver):
    driver.topics.set("u", 1)
    driver.beat("a", topics=["u", "t"], rack="r")
    driver.initialize()
    driver.beat("a", 2)
    driver.topics.set("u", 0)
    head, members = driver.shares.described_with_members("g")
    assert head == DescribedGroup(
        group_id="g",
        group_state="Stable",
        group_epoch=3,
        assignment_epoch=3,
        assignor_name="simple",
        members=[],
    )
    mine = TopicPartitions(topic_id=topic_id("t"), topic_name="t", partitions=[0, 1, 2, 3])
    assert list(members) == [
        Member(
            member_id="a",
            rack_id="r",
            member_epoch=3,
            client_id="c",
            client_host="/127.0.0.1",
            subscribed_topic_names=["t", "u"],
            assignment=Assignment(topic_partitions=[mine]),
        )
    ]


def test_refusal_has_no_other_content():
    assert refused("g", E.GROUP_ID_NOT_FOUND, "why") == DescribedGroup(
        error_code=E.GROUP_ID_NOT_FOUND,
        error_message="why",
        group_id="g",
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=[],
    )


# -- timers


def test_member_that_was_not_written_has_no_session(driver):
    driver.failing = E.NOT_ENOUGH_REPLICAS
    assert driver.beat("a") is E.NOT_ENOUGH_REPLICAS
    assert TimerKey(Timer.SESSION, "g", "a") not in driver.shares._timers
    driver.check_account()


def test_many_members_wait_longer_between_heartbeats(driver):
    driver.share_settings = type(driver.share_settings)(members_max=1_000)
    for number in range(300):
        last = driver.beat(f"m{number}")
    assert last.heartbeat_interval_ms == 600
