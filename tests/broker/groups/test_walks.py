"""Work over all groups and offsets of a shard (G9): done in pieces, and correct whatever happens between them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.broker.groups.driver import Driver
from trimaran.broker.groups import walks as groups_walks
from trimaran.broker.groups.limits import GroupLimits
from trimaran.broker.groups.records import GroupRecord
from trimaran.broker.groups.walks import LOOKED_PER_PIECE, RECORDS_PER_PIECE, Walks
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import TopicPartition
from trimaran.wire.records.groups import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)

E = ErrorCode
OLD, NEW = b"o" * 16, b"n" * 16
MANY = 2 * RECORDS_PER_PIECE + 10
LIMITS = replace(GroupLimits(), offsets_retention_ms=1_000, expiry_interval_ms=10_000)


def offset(group, topic, partition, topic_id=OLD):
    value = OffsetCommitValue(offset=5, metadata="", commit_timestamp=100, topic_id=topic_id)
    return GroupRecord(OffsetCommitKey(group=group, topic=topic, partition=partition), value)


def of_one_group():
    return [offset("g", "t", number) for number in range(MANY)]


def of_many_groups():
    return [offset(f"g{number}", "t", 0) for number in range(MANY)]


def count(driver):
    store = driver.shard.store
    return sum(map(store.offset_count, store.offsets))


def pieces(driver):
    """Lets the shard work until it sleeps; returns how many records each turn wrote."""
    written = []
    while driver.shard.deadline() == driver.now:
        before = len(driver.log)
        driver.shard.handle_timeout(driver.at)
        driver.settle()
        written.append(len(driver.log) - before)
    return written


# -- a walk


def test_piece_has_bounded_records_and_visits():
    walks = Walks()
    walks.add(iter([None] * (LOOKED_PER_PIECE + 1)))
    walks.add(iter(of_one_group()))
    assert walks.piece() == []
    assert [len(walks.piece()) for _ in range(4)] == [500, 500, 10, 0]
    assert not walks


def test_abandoned_walks_stop():
    walks = Walks()
    walks.add(iter(of_one_group()))
    walks.clear()
    assert walks.piece() == []


# -- missing topics


@pytest.mark.parametrize("records", [of_one_group, of_many_groups])
def test_offsets_of_deleted_topic_are_removed_piecewise(records):
    driver = Driver(log=records())
    driver.shard.topics_deleted({"t": OLD}, driver.at)
    driver.settle()
    assert count(driver) == MANY - RECORDS_PER_PIECE
    assert pieces(driver) == [RECORDS_PER_PIECE, 10]
    assert count(driver) == 0


@pytest.mark.parametrize("records", [of_one_group, of_many_groups])
def test_offsets_of_missing_topics_are_removed_piecewise(records):
    driver = Driver(log=records(), gone={("t", OLD)})
    driver.settle()
    assert count(driver) == MANY - RECORDS_PER_PIECE
    assert max(pieces(driver)) == RECORDS_PER_PIECE
    assert count(driver) == 0


def test_commits_to_recreated_topic_stay():
    driver = Driver(log=of_one_group())
    driver.shard.topics_deleted({"t": OLD}, driver.at)
    driver.settle()
    for partition in (
        0,
        MANY - 1,
    ):  # a partition that the walk has examined, and one that it has not
        driver.commit_offset(7, partition=partition, topic_id=NEW)
    pieces(driver)
    assert count(driver) == 2
    assert (driver.offset(partition=0), driver.offset(partition=MANY - 1)) == (7, 7)


def test_deletions_during_a_walk_share_the_next():
    driver = Driver(log=[*of_one_group(), *(offset("g", f"u{number}", 0) for number in range(50))])
    for name in ("t", *(f"u{number}" for number in range(50))):
        driver.shard.topics_deleted({name: OLD}, driver.at)
    assert len(driver.shard._removals._walks._walks) <= 2
    driver.settle()
    pieces(driver)
    assert count(driver) == 0


def test_unwritten_removals_are_repeated_by_next_expiry():
    driver = Driver(LIMITS, log=of_one_group())
    driver.failing = E.NOT_ENOUGH_REPLICAS
    driver.gone.add(("t", OLD))
    driver.shard.topics_deleted({"t": OLD}, driver.at)
    driver.settle()
    assert pieces(driver) == [0]
    driver.failing = None
    driver.advance(LIMITS.expiry_interval_ms / 1000)
    assert count(driver) == 0


def test_topics_deleted_after_abandoned_walk_are_removed():
    driver = Driver(log=[*of_one_group(), offset("g", "u", 0), offset("g", "v", 0)])
    driver.shard.topics_deleted({"t": OLD}, driver.at)
    driver.shard.topics_deleted({"u": OLD}, driver.at)
    driver.failing = E.NOT_ENOUGH_REPLICAS
    driver.settle()
    driver.failing = None
    driver.shard.topics_deleted({"v": OLD}, driver.at)
    driver.settle()
    pieces(driver)
    assert (driver.offset("u"), driver.offset("v")) == (5, None)


# -- expiry


@pytest.mark.parametrize("records", [of_one_group, of_many_groups])
def test_offsets_and_groups_expire_in_pieces(records):
    driver = Driver(LIMITS, log=records())
    driver.now = driver.shard.deadline()
    assert max(pieces(driver)) == RECORDS_PER_PIECE
    assert count(driver) == 0
    assert list(driver.shard.store.group_ids(driver.groups)) == []
    assert list(driver.replayed().group_ids(())) == []


def test_group_committing_during_expiry_stays():
    driver = Driver(LIMITS, log=of_one_group())
    driver.now = driver.shard.deadline()
    driver.shard.handle_timeout(driver.at)
    driver.settle()
    driver.commit_offset(7, partition=0)
    pieces(driver)
    assert (count(driver), driver.offset()) == (1, 7)
    assert list(driver.shard.store.group_ids(driver.groups)) == ["g"]


# -- sessions


def classic_group(number):
    member = MemberMetadata(
        member_id="m",
        group_instance_id=None,
        client_id="c",
        client_host="/h",
        rebalance_timeout=1_000,
        session_timeout=6_000,
        subscription=b"",
        assignment=b"",
    )
    value = GroupMetadataValue(
        protocol_type="x",
        generation=1,
        protocol="p",
        leader="m",
        current_state_timestamp=0,
        members=[member],
    )
    return GroupRecord(GroupMetadataKey(group=f"g{number}"), value)


def test_sessions_of_many_groups_begin_in_pieces():
    driver = Driver(log=[classic_group(number) for number in range(LOOKED_PER_PIECE)])
    begun = len(driver.shard._timers)
    assert begun < LOOKED_PER_PIECE
    driver.now = 1.0
    assert driver.heartbeat("m", 1, group=f"g{LOOKED_PER_PIECE - 1}") is E.NONE
    driver.now = 0.0
    assert pieces(driver) == [0, 0]
    assert len(driver.shard._timers) == LOOKED_PER_PIECE + 1  # and expiry
    # A session that a heartbeat has begun is not cut short.
    driver.advance(6.5)
    assert [group.id for group in driver.groups.values() if group.members] == [
        f"g{LOOKED_PER_PIECE - 1}"
    ]


# -- deletion


def test_groups_are_deleted_in_pieces():
    driver = Driver(log=[*of_one_group(), offset("h", "t", 0)])
    found = [driver.submit(driver.shard.delete_groups(["g", "h", "none"])) for _ in range(3)]
    assert found == [{}, {}, {"g": E.NONE, "h": E.NONE, "none": E.GROUP_ID_NOT_FOUND}]
    assert driver.submit(driver.shard.delete_groups(["g", "h"])) == dict.fromkeys(
        "gh", E.GROUP_ID_NOT_FOUND
    )
    assert count(driver) == 0


def test_groups_share_a_piece():
    log = [offset(group, "t", number) for group in "gh" for number in range(300)]
    driver = Driver(log=log)
    first = driver.shard.delete_groups(["g", "h"])
    assert (len(first.records), first.response) == (RECORDS_PER_PIECE, {"g": E.NONE})
    driver.submit(first)
    assert driver.submit(driver.shard.delete_groups(["h"])) == {"h": E.NONE}


# -- a group whose last offset was removed


def emptied():
    driver = Driver(LIMITS)
    driver.commit_offset(1)
    driver.submit(driver.shard.delete_offsets("g", [TopicPartition("t", 0)]))
    return driver


def test_group_without_offsets_exists_until_deleted():
    """Kafka 4.3 does the same, and lists the group as Empty."""
    driver = emptied()
    assert driver.shard.store.knows("g")
    assert list(driver.shard.store.group_ids(driver.groups)) == ["g"]
    assert driver.commit_offset(1, generation=3, member_id="m") is E.UNKNOWN_MEMBER_ID
    assert driver.submit(driver.shard.delete_groups(["g"])) == {"g": E.NONE}
    assert driver.submit(driver.shard.delete_groups(["g"])) == {"g": E.GROUP_ID_NOT_FOUND}


def test_group_without_offsets_is_removed_at_expiry():
    driver = emptied()
    driver.advance(LIMITS.expiry_interval_ms / 1000)
    assert list(driver.shard.store.group_ids(driver.groups)) == []
    assert list(driver.replayed().group_ids(())) == []


def test_commit_revives_group_without_offsets():
    driver = emptied()
    driver.commit_offset(1)
    assert not driver.shard.store.emptied
    assert list(driver.shard.store.group_ids(driver.groups)) == ["g"]


def test_group_with_own_record_is_remembered_once():
    driver = Driver(log=[classic_group(1), offset("g1", "t", 0)])
    driver.shard.topics_deleted({"t": OLD}, driver.at)
    driver.settle()
    assert count(driver) == 0
    assert not driver.shard.store.emptied


def test_consumer_group_joined_during_expiry_keeps_epoch(monkeypatch):
    """Otherwise a coordinator that loads the compacted log would restart the group's epochs."""
    driver = Driver(LIMITS)
    driver.consumer_heartbeat("a")
    driver.consumer_heartbeat("a", -1)
    monkeypatch.setattr(groups_walks, "RECORDS_PER_PIECE", 1)
    driver.now = LIMITS.expiry_interval_ms / 1000
    written = len(driver.log)
    driver.shard.handle_timeout(driver.at)
    driver.settle()
    assert len(driver.log) == written + 1, "the target's epoch, and more is to come"
    joined = driver.consumer_heartbeat("b")
    pieces(driver)
    assert driver.replayed().of("consumer")["g"].epoch == joined.member_epoch
    assert driver.shard.store.of("consumer")["g"].has_epoch
