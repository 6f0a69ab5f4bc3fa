"""A shard with two kinds of groups: which kind a request is for, what is deleted with a group, and what stays."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.broker.groups.driver import Driver, topic_id
from trimaran.broker.groups.classic import rebalance
from trimaran.broker.groups.classic.group import GroupState
from trimaran.broker.groups.classic.operation import ClassicTimer, Succession
from trimaran.broker.groups.classic.records import group_record
from trimaran.broker.groups.consumer.operation import ConsumerTimer
from trimaran.broker.groups.heartbeating.operation import HeartbeatGroupWrite, HeartbeatTimer
from trimaran.broker.groups.limits import GroupLimits
from trimaran.broker.groups.outputs import Timer, TimerKey
from trimaran.broker.groups.records import GroupRecord, Tombstones
from trimaran.node.replicated.state_machine import Producer
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicPartition
from trimaran.wire.messages.offset_commit import OffsetCommitRequest
from trimaran.wire.messages.offset_fetch import OffsetFetchRequestGroup
from trimaran.wire.records.groups import GroupMetadataKey, OffsetCommitKey, OffsetCommitValue

E = ErrorCode
S = GroupState
PRODUCER = Producer(7, 0)


@pytest.fixture
def driver():
    return Driver()


def stable(driver, *names):
    """Adds static members in a stable generation 1."""
    for name in names:
        driver.join(name, instance=name)
    driver.advance(3)
    ids = [driver.answers[name].member_id for name in names]
    for name, member_id in zip(names, ids, strict=True):
        driver.sync(f"sync {name}", member_id, 1, dict.fromkeys(ids, b"x"), instance=name)
    return ids


def pending(driver, topic="t", partition=0, group="g", topic_id=bytes(16)):
    """Adds an offset that an open transaction commits."""
    key = OffsetCommitKey(group=group, topic=topic, partition=partition)
    value = OffsetCommitValue(offset=9, metadata="", commit_timestamp=0, topic_id=topic_id)
    driver.shard.replay(-1, GroupRecord(key, value), PRODUCER)  # older than the log


TIMERS = (*Timer, *ClassicTimer, *HeartbeatTimer, *ConsumerTimer)


def timers_of(driver, *member_ids):
    kinds = {kind for kind in TIMERS if TimerKey(kind, "g") in driver.shard._timers}
    return kinds | {
        (kind, member_id)
        for kind in TIMERS
        for member_id in member_ids
        if TimerKey(kind, "g", member_id) in driver.shard._timers
    }


# -- deleting


def test_group_with_members_is_not_deleted(driver):
    driver.consumer_heartbeat("a", group="new")
    stable(driver, "b")
    driver.commit_offset(1, group="offsets only")
    codes = driver.submit(driver.shard.delete_groups(["new", "g", "offsets only", "none"]))
    assert codes == {
        "new": E.NON_EMPTY_GROUP,
        "g": E.NON_EMPTY_GROUP,
        "offsets only": E.NONE,
        "none": E.GROUP_ID_NOT_FOUND,
    }
    driver.consumer_heartbeat("a", -1, group="new")
    assert driver.submit(driver.shard.delete_groups(["new"])) == {"new": E.NONE}
    assert not driver.replayed().knows("new")


@pytest.mark.parametrize("kind", ["classic", "consumer", "offsets", "transaction"])
def test_any_record_makes_group_known(driver, kind):
    store = driver.shard.store
    assert not store.knows("g")
    match kind:
        case "classic":
            (member_id,) = stable(driver, "a")
            driver.leave((member_id, "a"))
        case "consumer":
            driver.consumer_heartbeat("a")
        case "offsets":
            driver.commit_offset(1)
        case "transaction":
            pending(driver)
    assert store.knows("g")


def test_group_known_only_by_transaction_is_deleted(driver):
    pending(driver)
    assert driver.submit(driver.shard.delete_groups(["g"])) == {"g": E.NONE}
    driver.shard.complete_transaction(PRODUCER, is_commit=True)
    assert driver.offset() is None


def test_only_removals_may_be_written_in_parts(driver):
    """The client repeats a removal that was written in part."""
    shard, partition = driver.shard, TopicPartition("t", 0)
    assert driver.commit_offset(1) is E.NONE
    commit = shard.commit_offsets(OffsetCommitRequest(group_id="g", topics=[]), 9, driver.at)
    removed = [shard.delete_offsets("g", [partition]), shard.delete_groups(["g"])]
    assert [result.atomic for result in (commit, *removed)] == [True, False, False]
    assert [len(result.records) for result in removed] == [1, 2]


def test_pending_offsets_are_deleted_too(driver):
    pending(driver)
    driver.commit_offset(1, partition=1)
    result = driver.shard.delete_offsets(
        "g", [TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("t", 2)]
    )
    assert not result.atomic  # as many as exist
    assert set(driver.submit(result).values()) == {E.NONE}
    assert [record.value for record in driver.log[-2:]] == [None, None]
    driver.shard.complete_transaction(PRODUCER, is_commit=True)
    assert driver.offset(partition=0) is driver.offset(partition=1) is None


def test_offsets_of_empty_connect_group_are_deleted(driver):
    driver.join("a", version=3, protocol_type="connect", protocols=[("p", b"")])
    driver.commit_offset(1)
    with pytest.raises(KafkaError) as refusal:
        driver.shard.delete_offsets("g", ())
    assert refusal.value.code is E.NON_EMPTY_GROUP
    driver.advance(3)
    driver.leave((driver.answers["a"].member_id, None))
    driver.shard.delete_offsets("g", ())
    with pytest.raises(KafkaError) as refusal:
        driver.shard.delete_offsets("unknown", ())
    assert refusal.value.code is E.GROUP_ID_NOT_FOUND


def test_pending_offsets_of_deleted_topic_are_removed(driver):
    pending(driver, topic_id=topic_id("t"))
    driver.shard.topics_deleted({"t": topic_id("t")}, driver.at)
    driver.settle()
    driver.shard.complete_transaction(PRODUCER, is_commit=True)
    assert driver.offset() is None


# -- the kind of a group


def test_empty_consumer_group_may_become_classic(driver):
    driver.consumer_heartbeat("a")
    driver.consumer_heartbeat("a", -1)
    driver.join("b", version=3)
    assert driver.groups["g"].state is S.PREPARING_REBALANCE
    assert "g" not in driver.replayed().of("consumer")
    driver.advance(3)
    assert driver.consumer_group("g") is None


def test_empty_groups_remains_go_atomically(driver):
    driver.consumer_heartbeat("a")
    driver.consumer_heartbeat("a", -1)
    driver.holding = True
    driver.join("b", version=3)
    assert all(write.atomic for write in driver.uncommitted.pop_committed(len(driver.log)))


def test_refused_join_leaves_no_group(driver):
    driver.join("a", "unknown")
    assert driver.answers["a"].error_code == E.UNKNOWN_MEMBER_ID
    driver.join("b", protocols=[])
    assert driver.answers["b"].error_code == E.INCONSISTENT_GROUP_PROTOCOL
    assert "g" not in driver.groups
    driver.join("c")
    assert driver.answers["c"].error_code == E.MEMBER_ID_REQUIRED
    assert "g" in driver.groups
    driver.leave((driver.answers["c"].member_id, None))
    assert "g" not in driver.groups
    driver.join("d")
    driver.advance(10)
    assert "g" not in driver.groups


@pytest.mark.parametrize("version", [2, 3])
def test_old_leave_version_names_one_member(driver, version):
    (member_id,) = stable(driver, "a")
    assert driver.leave((member_id, None), version=version) == [E.NONE]
    assert not driver.groups["g"].members


def test_waiting_join_must_retry_when_kind_changes(driver):
    driver.join("a", version=3)
    driver.consumer_heartbeat("n")
    assert driver.answers["a"].error_code == E.REBALANCE_IN_PROGRESS
    (member_id,) = (name for name in driver.shard.store.of("consumer")["g"].members if name != "n")
    assert timers_of(driver, member_id, "n") == {(Timer.SESSION, member_id), (Timer.SESSION, "n")}


def test_offsets_follow_rules_of_group_kind(driver):
    driver.consumer_heartbeat("a")
    asked = OffsetFetchRequestGroup(group_id="g", member_id="x", member_epoch=1, topics=None)
    with pytest.raises(KafkaError) as refusal:
        driver.shard.fetch_offsets(asked)
    assert refusal.value.code is E.UNKNOWN_MEMBER_ID
    for group, code in (("g", E.UNKNOWN_MEMBER_ID), ("other", E.GROUP_ID_NOT_FOUND)):
        request = OffsetCommitRequest(
            group_id=group, generation_id_or_member_epoch=1, member_id="x", topics=[]
        )
        with pytest.raises(KafkaError) as refusal:
            driver.shard.commit_offsets(request, 6, driver.at, Producer(7, 0))
        assert refusal.value.code is code


# -- leftover records


def close(driver, group):
    rebalance.close(driver.classic.operation(group, driver.at), E.NOT_COORDINATOR)
    driver.settle()


def test_closed_group_leaves_no_timer(driver):
    a, b = stable(driver, "a", "b")
    driver.join("pending")
    (waiting,) = driver.groups["g"].pending
    driver.join("a again", a, instance="a")
    group = driver.groups["g"]
    assert timers_of(driver, a, b, waiting) >= {ClassicTimer.JOIN, (Timer.SESSION, waiting)}
    close(driver, group)
    assert timers_of(driver, a, b, waiting) == set()
    assert group.state is S.DEAD
    assert driver.answers["a again"].error_code == E.NOT_COORDINATOR


def test_group_closed_before_sync_leaves_no_timer(driver):
    driver.join("a", version=3)
    driver.advance(3)
    assert ClassicTimer.SYNC in timers_of(driver)
    close(driver, driver.groups["g"])
    assert timers_of(driver) == set()


def test_commit_waiter_learns_once_that_coordinator_moved(driver):
    driver.consumer_heartbeat("n")
    driver.holding = True
    driver.join("a", version=3)
    driver.close()
    assert driver.answers["a"].error_code == E.NOT_COORDINATOR
    driver.close()


def test_unawaited_writes_are_not_remembered(driver):
    driver.shard.outputs.effects.writes.append(HeartbeatGroupWrite(kind="consumer", group_id="g"))
    driver.shard.take()
    assert not driver.shard.outputs.awaited


def test_only_failed_tombstones_give_up_removals(driver, monkeypatch):
    given_up = []
    monkeypatch.setattr(driver.shard._removals, "give_up", lambda: given_up.append(write))
    tombstones = Tombstones([GroupRecord(GroupMetadataKey(group="g"), None)])
    for write, code in (
        (tombstones, E.NONE),
        (HeartbeatGroupWrite(kind="consumer", group_id="g"), E.NOT_ENOUGH_REPLICAS),
        (Succession("g", []), E.NOT_ENOUGH_REPLICAS),
        (tombstones, E.NOT_ENOUGH_REPLICAS),
    ):
        driver.shard.written(write, code, driver.at)
    assert given_up == [tombstones]


def test_deleted_consumer_group_has_no_more_work(driver):
    driver.consumer_heartbeat("a")
    assert "g" in driver.consumers._works
    driver.consumer_heartbeat("a", -1)
    driver.submit(driver.shard.delete_groups(["g"]))
    assert "g" not in driver.consumers._works


def test_deleted_classic_group_answers_its_waiters(driver):
    driver.join("a", version=3)
    driver.append([group_record("g", None)])
    driver.settle()
    assert driver.answers["a"].error_code == E.UNKNOWN_MEMBER_ID


def test_failed_upgrade_does_not_affect_next_group(driver, monkeypatch):
    driver.join("a", version=3)
    driver.join("b", version=3, group="h")
    monkeypatch.setattr(driver, "submit", lambda result: result.response)
    driver.consumer_heartbeat("n")
    driver.append([group_record("h", None)])
    driver.settle()
    assert driver.answers["b"].error_code == E.UNKNOWN_MEMBER_ID
    assert "a" not in driver.answers


# -- loading


def test_loaded_groups_start_after_complete_load(driver):
    stable(driver, "a")
    after = Driver(log=driver.log, now=driver.now)
    assert set(after.groups["g"].instances) == {"a"}


def test_oversized_loaded_group_rebalances(driver):
    stable(driver, "a", "b")
    for members_max, state in ((2, S.STABLE), (1, S.PREPARING_REBALANCE)):
        limits = replace(GroupLimits(), members_max=members_max)
        assert Driver(limits, log=driver.log).groups["g"].state is state


def test_pending_offsets_of_missing_topics_are_dropped(driver):
    store_first = Driver()
    pending(store_first)
    store_first.gone.add(("t", bytes(16)))
    store_first.shard.finish_load()
    store_first.shard.loaded(store_first.at)
    store_first.settle()
    store_first.shard.complete_transaction(PRODUCER, is_commit=True)
    assert store_first.offset() is None


@pytest.mark.parametrize("leaves", [False, True])
def test_stale_classic_record_does_not_count(driver, leaves):
    """The log lacks the classic group's tombstone."""
    stable(driver, "a")
    classic = list(driver.log)
    fresh = Driver()
    fresh.consumer_heartbeat("n", topics=["t"])
    if leaves:
        fresh.consumer_heartbeat("n", -1)
    both = Driver(log=[*classic, *fresh.log])
    assert ("g" in both.groups) is leaves
    assert (both.consumer_group("g") is None) is leaves


def test_stale_consumer_records_do_not_count(driver):
    """The consumer group's tombstones could not be written."""
    driver.consumer_heartbeat("n")
    driver.consumer_heartbeat("n", -1)
    classic = Driver()
    classic.join("a", instance="a")
    classic.advance(3)
    a = classic.answers["a"].member_id
    classic.sync("sync", a, 1, {}, instance="a")
    both = Driver(log=[*driver.log, *classic.log])
    assert both.consumer_heartbeat("n", 1) is E.GROUP_ID_NOT_FOUND
    assert both.consumer_heartbeat("n").member_id == "n"
    assert set(both.shard.store.of("consumer")["g"].members) == {a, "n"}


def test_group_deletion_includes_stale_classic_record(driver):
    stable(driver, "a")
    fresh = Driver()
    fresh.consumer_heartbeat("n")
    fresh.consumer_heartbeat("n", -1)
    records = [record for record in driver.log if record.key.group == "g"]
    both = Driver(log=[*records, *fresh.log])
    both.groups.clear()
    assert both.submit(both.shard.delete_groups(["g"])) == {"g": E.NONE}
    assert not both.replayed().knows("g")


# -- expiry


def expiring(*log):
    limits = replace(GroupLimits(), offsets_retention_ms=5_000, expiry_interval_ms=1_000)
    return Driver(limits, log=log)


def test_offsets_of_subscribed_topics_stay():
    driver = expiring()
    driver.settings = replace(driver.settings, session_timeout_ms=60_000)
    driver.commit_offset(1, topic="t")
    driver.commit_offset(1, topic="u")
    driver.consumer_heartbeat("a", topics=["t"])
    driver.advance(7)
    assert (driver.offset("t"), driver.offset("u")) == (1, None)
    driver.consumer_heartbeat("a", -1)
    driver.advance(2)
    assert driver.offset("t") is None


def test_group_with_open_transaction_stays():
    before = Driver()
    (member_id,) = stable(before, "a")
    before.leave((member_id, "a"))
    driver = expiring(*before.log)
    pending(driver)
    driver.advance(10)
    assert "g" in driver.shard.store.of("classic")
    driver.shard.complete_transaction(PRODUCER, is_commit=False)
    driver.advance(2)
    assert "g" not in driver.shard.store.of("classic")
