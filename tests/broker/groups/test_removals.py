"""Removed offsets: those of missing topics, of deleted groups, and expired ones."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.broker.groups.driver import GROUP_DEPENDENCIES
from trimaran.broker.coordination.timers import Timers
from trimaran.broker.groups import removals
from trimaran.broker.groups.classic.group import ClassicGroup, GroupState
from trimaran.broker.groups.classic.groups import ClassicGroups
from trimaran.broker.groups.kinds import ShardParts
from trimaran.broker.groups.limits import GroupLimits
from trimaran.broker.groups.outputs import Outputs
from trimaran.broker.groups.records import GroupRecord
from trimaran.broker.groups.registry import KINDS
from trimaran.broker.groups.store import GroupStore
from trimaran.node.replicated.state_machine import Producer
from trimaran.wire.records.groups import OffsetCommitKey, OffsetCommitValue

S = GroupState
PRODUCER = Producer(7, 0)
OLD, NEW, NIL = b"o" * 16, b"n" * 16, bytes(16)
LIMITS = replace(GroupLimits(), offsets_retention_ms=1_000)


def store_of(*commits, pending=()):
    """Returns a store with these commits, as (group, topic, partition, topic id)."""
    store = GroupStore(KINDS)
    for offset, (commit, producer) in enumerate(
        [(commit, None) for commit in commits] + [(commit, PRODUCER) for commit in pending]
    ):
        group, topic, partition, topic_id = commit
        key = OffsetCommitKey(group=group, topic=topic, partition=partition)
        value = OffsetCommitValue(offset=5, metadata="", commit_timestamp=100, topic_id=topic_id)
        store.replay(offset, GroupRecord(key, value), producer)
    return store


def keys(tombstones):
    found = [tombstone for tombstone in tombstones if tombstone is not None]
    assert all(record.value is None for record in found)
    return {(record.key.group, record.key.topic, record.key.partition) for record in found}


COMMITS = [("g", "t", 0, OLD), ("g", "t", 1, NEW), ("h", "t", 0, NIL), ("h", "u", 0, OLD)]
OF_OLD_T = {("g", "t", 0), ("h", "t", 0)}


def test_deleted_topic_offsets_match_id_or_name():
    assert keys(removals.of_deleted_topics(store_of(*COMMITS), {"t": {OLD}})) == OF_OLD_T
    in_transactions = store_of(pending=COMMITS)
    assert keys(removals.of_deleted_topics(in_transactions, {"t": {OLD}})) == set()
    assert keys(removals.pending_of_deleted_topics(in_transactions, {"t": {OLD}})) == OF_OLD_T


def test_offsets_of_unknown_topics_are_removed():
    def knows(name, topic_id):
        return (name, topic_id) != ("t", OLD)

    store = store_of(*COMMITS, pending=COMMITS)
    assert keys(removals.of_gone_topics(store, ["g", "h"], knows)) == {("g", "t", 0)}
    assert [removals.has_gone_topics(store, letter, knows) for letter in "gh"] == [True, False]
    assert keys(removals.pending_of_gone_topics(store, knows)) == {("g", "t", 0)}


def test_group_removal_includes_pending_offsets():
    store = store_of(COMMITS[0], COMMITS[3], pending=[COMMITS[1], COMMITS[2]])
    assert keys(removals.offsets_of_group(store, "g")) == {("g", "t", 0), ("g", "t", 1)}


# -- expiry


def kind_of(store, group=None):
    """Returns the classic groups of a shard, one of which is `group`."""
    parts = ShardParts(store, Timers(), LIMITS, store.account, Outputs(), GROUP_DEPENDENCIES, {})
    groups = ClassicGroups(parts)
    if group is not None:
        groups.groups[group.id] = group
    return groups


def everything(_name, _topic_id):
    return True


def classic(state=S.EMPTY, *, protocol_type="consumer", topics=frozenset(), pending=()):
    group = ClassicGroup("g", 0, state)
    group.protocol_type, group.subscribed_topics = protocol_type, topics
    group.state_timestamp_ms = 100
    group.pending.update(pending)
    return group


@pytest.mark.parametrize(("now_ms", "is_over"), [(1_099, False), (1_100, True), (1_101, True)])
def test_offset_is_kept_for_its_retention(now_ms, is_over):
    store = store_of(COMMITS[0])
    found = removals.expired(kind_of(store), store, "g", LIMITS, now_ms, everything)
    assert keys(found) == ({("g", "t", 0)} if is_over else set())


@pytest.mark.parametrize(("now_ms", "is_over"), [(499, False), (500, True)])
def test_offset_with_own_expiry_is_kept_until_then(now_ms, is_over):
    store = GroupStore(KINDS)
    value = OffsetCommitValue(offset=5, metadata="", commit_timestamp=100, expire_timestamp=500)
    store.replay(0, GroupRecord(OffsetCommitKey(group="g", topic="t", partition=0), value))
    found = removals.expired(kind_of(store), store, "g", LIMITS, now_ms, everything)
    assert keys(found) == ({("g", "t", 0)} if is_over else set())


def test_offset_with_pending_replacement_stays():
    store = store_of(COMMITS[0], COMMITS[1], pending=[COMMITS[0]])
    found = removals.expired(kind_of(store), store, "g", LIMITS, 10_000, everything)
    assert keys(found) == {("g", "t", 1)}


@pytest.mark.parametrize(
    ("group", "expires"),
    [
        (classic(), True),
        (classic(pending=["m"]), False),
        (classic(S.STABLE), True),
        (classic(S.STABLE, topics=frozenset(["t"])), False),
        (classic(S.STABLE, topics=None), False),
        (classic(S.STABLE, protocol_type="connect"), False),
        (classic(S.PREPARING_REBALANCE), False),
        (classic(S.COMPLETING_REBALANCE), False),
    ],
    ids=str,
)
def test_offsets_expire_only_for_provably_unread_topics(group, expires):
    store = store_of(COMMITS[0])
    found = removals.expired(kind_of(store, group), store, "g", LIMITS, 10_000, everything)
    assert bool(keys(found)) is expires


def test_offsets_of_unknown_topics_expire_during_rebalance():
    group = classic(S.PREPARING_REBALANCE)
    store = store_of(COMMITS[0])
    found = removals.expired(
        kind_of(store, group), store, "g", LIMITS, 0, lambda _name, _topic_id: False
    )
    assert keys(found) == {("g", "t", 0)}
