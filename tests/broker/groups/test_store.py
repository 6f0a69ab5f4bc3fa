"""The store against a naive twin, and its account against the sizes of what it has."""

from __future__ import annotations

from random import Random

import pytest

from trimaran.broker.groups.memory import OFFSET_BYTES, group_bytes, topic_bytes
from trimaran.broker.groups.records import GroupRecord
from trimaran.broker.groups.registry import KINDS
from trimaran.broker.groups.store import GroupStore
from trimaran.node.replicated.state_machine import Producer
from trimaran.node.text.memory import text_bytes
from trimaran.wire.identity import TopicPartition
from trimaran.wire.records.groups import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)

GROUPS, TOPICS, METADATA = ("g", "group"), ("t", "topic"), ("", "", "m", "more")
PRODUCERS = (Producer(7, 0), Producer(8, 0))


class Twin:
    """The last value of each key in a flat dictionary, and those of open transactions in one of their own."""

    def __init__(self):
        self.offsets = {}
        self.groups = set()
        self.emptied = set()
        self.pending = {producer: {} for producer in PRODUCERS}

    def replay(self, offset, record, producer):
        if producer is not None:
            self.pending[producer][place_of(record.key)] = (offset, record.value)
        elif isinstance(record.key, OffsetCommitKey):
            self._apply(place_of(record.key), offset, record.value)
        else:
            change = self.groups.discard if record.value is None else self.groups.add
            change(record.key.group)
            self.emptied.discard(record.key.group)

    def complete(self, producer, is_commit):
        values, self.pending[producer] = self.pending[producer], {}
        for place, (offset, value) in sorted(values.items(), key=lambda item: item[1][0]):
            if is_commit:
                self._apply(place, offset, value)

    def _apply(self, place, offset, value):
        group = place[0]
        # A later record of the key wins, also over a transaction that ends after it.
        if self.offsets.get(place, (-1, None))[0] > offset:
            return
        had = self.committed(group)
        self.offsets[place] = (offset, value)
        if value is not None:
            self.emptied.discard(group)
        elif had and not self.committed(group) and group not in self.groups:
            self.emptied.add(group)

    def committed(self, group):
        """Values by topic and partition."""
        return {
            (topic, partition): value
            for (of, topic, partition), (_, value) in self.offsets.items()
            if of == group and value is not None
        }

    def last_pending(self, producer):
        """Values of the producer's open transaction that no later record has overridden."""
        return {
            place: value
            for place, (offset, value) in self.pending[producer].items()
            if self.offsets.get(place, (-1, None))[0] < offset
        }


def place_of(key):
    return key.group, key.topic, key.partition


def random_record(random):
    group = random.choice(GROUPS)
    if random.random() < 0.1:
        value = GroupMetadataValue(
            protocol_type="",
            generation=0,
            protocol=None,
            leader=None,
            current_state_timestamp=0,
            members=[],
        )
        return GroupRecord(GroupMetadataKey(group=group), random.choice((value, None)))
    key = OffsetCommitKey(group=group, topic=random.choice(TOPICS), partition=random.randrange(2))
    value = OffsetCommitValue(
        offset=random.randrange(100), metadata=random.choice(METADATA), commit_timestamp=0
    )
    return GroupRecord(key, value if random.random() < 0.6 else None)


def check(store, twin):
    committed = {group: twin.committed(group) for group in GROUPS}
    metadata = known = 0
    for group, offsets in committed.items():
        assert dict(store.offsets_of(group)) == offsets
        assert store.offset_count(group) == len(offsets)
        assert store.has_had_offsets(group) == (bool(offsets) or group in twin.emptied)
        metadata += sum(text_bytes(value.metadata) for value in offsets.values())
        places = [offsets, group in twin.emptied, group in twin.groups]
        known += group_bytes(group) * sum(map(bool, places))
        known += sum(topic_bytes(topic) for topic in {topic for topic, _ in offsets})
        known += OFFSET_BYTES * len(offsets)
    assert set(store.emptied) == twin.emptied
    assert set(store.of("classic")) == twin.groups
    assert (store.account.offset_metadata_bytes, store.account.known_bytes) == (metadata, known)
    check_pending(store, [twin.last_pending(producer) for producer in PRODUCERS])


def check_pending(store, pending):
    values = [value for keys in pending for value in keys.values() if value is not None]
    assert store.account.pending_metadata_bytes == sum(text_bytes(v.metadata) for v in values)
    assert store.account.pending_known_bytes == sum(
        group_bytes(group) + topic_bytes(topic) + OFFSET_BYTES
        for keys in pending
        for group, topic, _ in keys
    )
    every = {where for keys in pending for where in keys}
    for group in GROUPS:
        assert store.has_pending(group) == any(where[0] == group for where in every)
        for topic in TOPICS:
            for partition in range(2):
                key = TopicPartition(topic, partition)
                assert store.is_pending(group, key) == ((group, *key) in every)
                for producer, keys in zip(PRODUCERS, pending, strict=True):
                    assert store.pends(producer.id, group, key) == ((group, *key) in keys)


@pytest.mark.parametrize("seed", range(6))
def test_store_equals_its_naive_twin(seed):
    random, store, twin = Random(seed), GroupStore(KINDS), Twin()
    for offset in range(150):
        record = random_record(random)
        is_offset = isinstance(record.key, OffsetCommitKey)
        producer = random.choice((None, None, *PRODUCERS)) if is_offset else None
        if random.random() < 0.15:
            ended, is_commit = random.choice(PRODUCERS), random.random() < 0.7
            store.complete_transaction(ended, is_commit)
            twin.complete(ended, is_commit)
        else:
            store.replay(offset, record, producer)
            twin.replay(offset, record, producer)
        check(store, twin)
    store.unload()
    assert all(store.offset_count(group) == 0 for group in GROUPS)
    assert not store.offsets
    assert not store.of("classic")


def state_of(store):
    """Returns the offsets with their order in each topic, what is pending, and what the account has counted."""
    account = store.account
    return (
        dict(store.offsets),
        list(store.pending_offsets()),
        set(store.emptied),
        (account.known_bytes, account.pending_known_bytes),
        (account.offset_metadata_bytes, account.pending_metadata_bytes),
    )


@pytest.mark.parametrize("seed", range(6))
def test_offsets_applied_later_equal_those_at_once(seed, monkeypatch):
    random, at_once, later, walks = Random(seed), GroupStore(KINDS), GroupStore(KINDS), []
    for offset in range(300):
        record = random_record(random)
        is_offset = isinstance(record.key, OffsetCommitKey)
        producer = random.choice((None, *PRODUCERS, *PRODUCERS)) if is_offset else None
        if random.random() < 0.1:
            ended, is_commit = random.choice(PRODUCERS), random.random() < 0.8
            assert at_once.complete_transaction(ended, is_commit) is None
            with monkeypatch.context() as patched:
                patched.setattr("trimaran.broker.groups.store.APPLIED_AT_ONCE", 1)
                walk = later.complete_transaction(ended, is_commit)
            walks += [] if walk is None else [walk]
        else:
            at_once.replay(offset, record, producer)
            later.replay(offset, record, producer)
        if walks and random.random() < 0.5:
            next(random.choice(walks), None)
    assert walks
    for walk in walks:
        list(walk)
    assert state_of(later) == state_of(at_once)
    assert not any(later.is_completing(group) for group in GROUPS)
