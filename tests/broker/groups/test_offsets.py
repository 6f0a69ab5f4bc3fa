"""Committing, reading, deleting and expiring offsets."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.broker.groups.driver import WALL_CLOCK_MS, Driver, subscription
from trimaran.broker.groups.limits import GroupLimits
from trimaran.broker.groups.registry import serde_of
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicPartition
from trimaran.wire.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics

E = ErrorCode
LIMITS = GroupLimits()
INT64_MAX = (1 << 63) - 1
DAY = 24 * 3600
ID_A, ID_B = b"a" * 16, b"b" * 16


@pytest.fixture
def driver():
    return Driver()


def stable(driver, topics=("t",), **join):
    """Returns one member, in generation 1."""
    driver.join("join", version=3, protocols=[("range", subscription(topics))], **join)
    driver.advance(3)
    member_id = driver.answers["join"].member_id
    driver.sync("sync", member_id, driver.groups["g"].generation, {member_id: b"x"})
    return member_id


def fetch(driver, *partitions, topic="t", group="g", topic_id=bytes(16)):
    topics = [
        OffsetFetchRequestTopics(name=topic, topic_id=topic_id, partition_indexes=list(partitions))
    ]
    answer = driver.submit(
        driver.shard.fetch_offsets(OffsetFetchRequestGroup(group_id=group, topics=topics))
    )
    return [p.committed_offset for p in answer.topics[0].partitions]


# -- the right to commit


def test_commit_with_generation_needs_existing_group(driver):
    assert driver.commit_offset(1, member_id="x", generation=3) is E.GROUP_ID_NOT_FOUND
    assert driver.commit_offset(1, member_id="x", generation=3, version=8) is E.ILLEGAL_GENERATION
    assert list(driver.shard.store.group_ids(driver.groups)) == []
    assert driver.commit_offset(1) is E.NONE
    assert list(driver.shard.store.group_ids(driver.groups)) == ["g"]
    assert driver.commit_offset(1, member_id="x", generation=3) is E.UNKNOWN_MEMBER_ID


def test_commit_needs_current_generation_and_member(driver):
    member_id = stable(driver)
    assert driver.commit_offset(1, member_id=member_id, generation=1) is E.NONE
    assert driver.commit_offset(2, member_id=member_id, generation=0) is E.ILLEGAL_GENERATION
    assert driver.commit_offset(2, member_id=member_id) is E.ILLEGAL_GENERATION
    assert driver.commit_offset(2, member_id="other", generation=1) is E.UNKNOWN_MEMBER_ID
    assert driver.commit_offset(2) is E.UNKNOWN_MEMBER_ID
    assert (
        driver.commit_offset(2, member_id=member_id, generation=1, instance="i")
        is E.UNKNOWN_MEMBER_ID
    )
    assert driver.offset() == 1


def test_commit_keeps_session_alive(driver):
    member_id = stable(driver)
    for _ in range(4):
        driver.advance(8)
        assert driver.commit_offset(1, member_id=member_id, generation=1) is E.NONE
    driver.advance(11)
    assert driver.commit_offset(1, member_id=member_id, generation=1) is E.UNKNOWN_MEMBER_ID


# -- limits of a commit (reliability mA7)


def test_metadata_is_bounded(driver):
    assert driver.commit_offset(1, metadata="m" * 4096) is E.NONE
    assert driver.commit_offset(2, metadata="m" * 4097) is E.OFFSET_METADATA_TOO_LARGE
    assert driver.commit_offset(3, metadata=None) is E.NONE
    assert driver.shard.store.offset("g", TopicPartition("t", 0)).metadata == ""


def test_metadata_is_measured_as_java_does(driver):
    """A character outside of the basic plane counts twice."""
    assert driver.commit_offset(1, metadata="\N{GRINNING FACE}" * 2048) is E.NONE
    assert driver.commit_offset(2, metadata="\N{GRINNING FACE}" * 2048 + "m") is (
        E.OFFSET_METADATA_TOO_LARGE
    )


@pytest.mark.parametrize("offset", [-1, -2, -7, -(1 << 63), INT64_MAX])
def test_any_offset_is_stored_and_read_back(driver, offset):
    driver.commit_offset(5)
    assert driver.commit_offset(offset) is E.NONE
    assert fetch(driver, 0) == [offset]
    serde_of().encode(driver.log[-1], 0)  # the record can be written


@pytest.mark.parametrize(
    ("retention_ms", "expires_ms"),
    [
        (-1, -1),
        (0, WALL_CLOCK_MS),
        (5, WALL_CLOCK_MS + 5),
        (INT64_MAX, INT64_MAX),
        (-(1 << 63), 0),
        (-2, WALL_CLOCK_MS - 2),
    ],
)
def test_retention_of_old_clients(driver, retention_ms, expires_ms):
    assert driver.commit_offset(1, retention_ms=retention_ms) is E.NONE
    assert driver.shard.store.offset("g", TopicPartition("t", 0)).expire_timestamp == expires_ms
    serde_of().encode(driver.log[0], 0)  # the record can be written


# -- reading


def test_missing_offset_is_fetched_as_minus_one(driver):
    driver.commit_offset(5, partition=1)
    assert fetch(driver, 0, 1) == [-1, 5]
    assert fetch(driver, 1, topic="other") == [-1]
    assert fetch(driver, 1, group="other") == [-1]


def test_fetch_without_topics_returns_every_offset(driver):
    driver.commit_offset(5, topic="t", partition=1)
    driver.commit_offset(6, topic="u", partition=0)
    request = OffsetFetchRequestGroup(group_id="g", topics=None)
    answer = driver.submit(driver.shard.fetch_offsets(request))
    found = {
        (t.name, p.partition_index): p.committed_offset for t in answer.topics for p in t.partitions
    }
    assert found == {("t", 1): 5, ("u", 0): 6}
    request = OffsetFetchRequestGroup(group_id="none", topics=None)
    assert driver.submit(driver.shard.fetch_offsets(request)).topics == []


def test_offset_of_recreated_topic_is_new(driver):
    driver.commit_offset(5, topic_id=ID_A)
    assert fetch(driver, 0, topic_id=ID_A) == [5]
    assert fetch(driver, 0, topic_id=ID_B) == [-1]
    assert fetch(driver, 0) == [5]


# -- deleting


def test_offsets_of_subscribed_topics_are_not_deleted(driver):
    stable(driver, topics=["t"])
    member_id = driver.answers["join"].member_id
    for topic in ("t", "u"):
        driver.commit_offset(1, member_id=member_id, generation=1, topic=topic)
    codes = driver.submit(
        driver.shard.delete_offsets(
            "g", [TopicPartition("t", 0), TopicPartition("u", 0), TopicPartition("u", 1)]
        )
    )
    assert codes == {("t", 0): E.GROUP_SUBSCRIBED_TO_TOPIC, ("u", 0): E.NONE, ("u", 1): E.NONE}
    assert driver.offset("t") == 1
    assert driver.offset("u") is None
    with pytest.raises(KafkaError) as caught:
        driver.shard.delete_offsets("none", [])
    assert caught.value.code is E.GROUP_ID_NOT_FOUND


def test_offsets_of_other_protocols_are_not_deleted(driver):
    stable(driver, protocol_type="connect")
    with pytest.raises(KafkaError) as caught:
        driver.shard.delete_offsets("g", [TopicPartition("t", 0)])
    assert caught.value.code is E.NON_EMPTY_GROUP


def test_only_empty_groups_are_deleted(driver):
    member_id = stable(driver)
    driver.commit_offset(1, group="simple")
    codes = driver.submit(driver.shard.delete_groups(["g", "simple", "none"]))
    assert codes == {"g": E.NON_EMPTY_GROUP, "simple": E.NONE, "none": E.GROUP_ID_NOT_FOUND}
    assert list(driver.shard.store.group_ids(driver.groups)) == ["g"]
    driver.leave((member_id, None))
    assert driver.submit(driver.shard.delete_groups(["g"])) == {"g": E.NONE}
    assert list(driver.shard.store.group_ids(driver.groups)) == []
    assert driver.replayed().of("classic") == {}
    assert driver.shard.deadline() == pytest.approx(LIMITS.expiry_interval_ms / 1000)


def test_offsets_of_deleted_topic_are_removed(driver):
    driver.commit_offset(1, topic="t", topic_id=ID_A)
    driver.commit_offset(1, topic="u", topic_id=ID_B)
    driver.shard.topics_deleted({"t": ID_A, "u": ID_A}, driver.at)
    driver.settle()
    assert driver.offset("t") is None
    assert driver.offset("u") == 1


# -- missing topics whose offsets have no tombstone yet


def test_offsets_of_missing_topics_are_omitted(driver):
    driver.commit_offset(5, topic_id=ID_A)
    driver.gone = {("t", ID_A)}
    assert fetch(driver, 0) == [-1]
    request = OffsetFetchRequestGroup(group_id="g", topics=None)
    assert driver.submit(driver.shard.fetch_offsets(request)).topics == []


def test_offsets_of_a_topic_that_is_gone_expire(driver):
    """Offsets of a later topic with that name stay, whether or not the group rebalances."""
    driver.commit_offset(5, topic_id=ID_A, partition=0)
    driver.commit_offset(5, topic_id=ID_B, partition=1)
    driver.join("a", version=3)
    driver.gone = {("t", ID_A)}
    driver.advance(LIMITS.expiry_interval_ms / 1000 + 1)
    assert (driver.offset(partition=0), driver.offset(partition=1)) == (None, 5)


# -- expiry


def test_offsets_without_members_expire_after_their_commit(driver):
    driver.commit_offset(1)
    driver.advance(3 * DAY)
    driver.commit_offset(1, partition=1)
    driver.advance(4.1 * DAY)
    assert (driver.offset(partition=0), driver.offset(partition=1)) == (None, 1)
    driver.advance(3 * DAY)
    assert list(driver.shard.store.group_ids(driver.groups)) == []


def test_offsets_expire_after_last_member_left(driver):
    member_id = stable(driver, session_ms=1_800_000)
    driver.commit_offset(1, member_id=member_id, generation=1)
    for _ in range(8 * DAY // 1_500):
        driver.advance(1_500)
        assert driver.heartbeat(member_id, 1) is E.NONE
    assert driver.offset() == 1  # G6: older than the retention, but the group is active
    driver.leave((member_id, None))
    driver.advance(6.9 * DAY)
    assert driver.offset() == 1
    driver.advance(0.2 * DAY)
    assert driver.offset() is None
    assert list(driver.shard.store.group_ids(driver.groups)) == []
    assert driver.replayed().of("classic") == {}


def test_offsets_do_not_expire_while_rebalancing(driver):
    """KAFKA-13636."""
    limits = replace(LIMITS, offsets_retention_ms=1_000, expiry_interval_ms=500)
    driver = Driver(limits)
    driver.commit_offset(1)
    driver.join("a", version=3)
    driver.advance(2)
    assert driver.offset() == 1


def test_load_alone_does_not_expire_offsets():
    """KAFKA-8069: the members of the old coordinator have not sent a heartbeat yet."""
    limits = replace(LIMITS, offsets_retention_ms=60_000, expiry_interval_ms=1_000)
    old = Driver(limits)
    member_id = stable(old, session_ms=30_000)
    old.commit_offset(1, member_id=member_id, generation=1)
    for _ in range(20):
        old.advance(20)
        old.heartbeat(member_id, 1)
    new = Driver(limits, log=old.log, now=old.now)
    new.advance(29)
    assert new.offset() == 1
    new.advance(2)  # the session ends; the group is empty from now on
    new.advance(58)
    assert new.offset() == 1
    new.advance(2)
    assert new.offset() is None


def test_unread_topics_expire_in_living_group(driver):
    """KAFKA-4682."""
    limits = replace(LIMITS, offsets_retention_ms=60_000, expiry_interval_ms=1_000)
    driver = Driver(limits)
    member_id = stable(driver, topics=["t"], session_ms=100_000)
    for topic in ("t", "u"):
        driver.commit_offset(1, member_id=member_id, generation=1, topic=topic)
    driver.advance(62)
    assert (driver.offset("t"), driver.offset("u")) == (1, None)


def test_own_expiry_takes_precedence(driver):
    driver.commit_offset(1, retention_ms=1_000, version=4)
    driver.advance(601)
    assert driver.offset() is None
