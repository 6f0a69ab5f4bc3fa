"""A share group as given by its records: any order of a compacted log, tombstones, and the bytes of records."""

from __future__ import annotations

import random

from tests.broker.groups.driver import topic_id
from tests.broker.groups.share.driver import ShareDriver
from trimaran.broker.groups.records import GroupRecord
from trimaran.broker.groups.registry import KINDS, serde_of
from trimaran.broker.groups.share.group import ShareGroup
from trimaran.broker.groups.share.records import states_record
from trimaran.broker.groups.share.state_partitions import StatePartitions, TopicState
from trimaran.broker.groups.store import GroupStore
from trimaran.wire.records.share_groups import (
    ShareGroupPartitionMetadataKey,
    ShareGroupPartitionMetadataValue,
    ShareGroupTargetAssignmentMetadataKey,
    TopicPartitionsInfo,
)


def busy_driver():
    driver = ShareDriver()
    driver.topics.set("u", 2)
    for _ in range(2):
        driver.beat("a", topics=["t", "u"])
        driver.initialize()
    driver.beat("b", rack="r", client="d")
    driver.beat("c")
    driver.beat("c", -1)
    driver.topics.set("t", 5)
    driver.beat("a", 0, topics=["t", "u"])
    return driver


def stored(records):
    store = GroupStore(KINDS)
    for offset, record in enumerate(records):
        store.replay(offset, record)
    return store


def test_compacted_log_in_any_order_gives_the_group():
    driver = busy_driver()
    serde = serde_of()
    last = {}
    for record in driver.log:
        written = serde.encode(record, 0)
        last[written.key] = serde.decode(written.key, written.value)
    expected = vars(driver.group())
    for seed in range(20):
        records = list(last.values())
        random.Random(seed).shuffle(records)
        assert vars(stored(records).of("share")["g"]) == expected
    assert stored(driver.log).account.bytes == driver.group().held_bytes


def test_group_is_gone_with_its_last_tombstone():
    driver = busy_driver()
    for member_id in ("a", "b"):
        driver.beat(member_id, -1)
    tombstones = list(driver.shares.tombstones("g"))
    store = stored(driver.log)
    for number, record in enumerate(tombstones):
        assert "g" in store.of("share"), number
        store.replay(len(driver.log) + number, record)
    assert store.of("share") == {}
    assert store.account.bytes == store.account.known_bytes == 0


def test_tombstones_of_unknown_group_make_nothing():
    store = stored([states_record("g", StatePartitions())._replace(value=None)])
    assert not store.knows("g")


def test_records_of_early_access_are_ignored():
    value = ShareGroupPartitionMetadataValue(
        initialized_topics=[
            TopicPartitionsInfo(topic_id=bytes(16), topic_name="t", partitions=[0])
        ],
        deleting_topics=[],
    )
    key = ShareGroupPartitionMetadataKey(group_id="g")
    assert not stored([GroupRecord(key, value), GroupRecord(key, None)]).knows("g")


def test_assignment_epoch_ends_with_its_tombstone():
    group = ShareGroup("g")
    assert (group.epoch, group.assignment_epoch, group.is_gone) == (1, 1, True)
    group.apply(ShareGroupTargetAssignmentMetadataKey(group_id="g"), None)
    assert (group.assignment_epoch, group.has_assignment) == (-1, False)


def test_values_are_written_as_kafka_writes_them():
    states = StatePartitions(
        {topic_id("t"): TopicState("t", frozenset({1, 0}))}, {}, {topic_id("u"): "u"}
    )
    written = serde_of().encode(states_record("g", states), 0)
    assert written.key == b"\0\x0f\0\1g"
    assert written.value == (
        b"\0\0"
        + b"\x02" + topic_id("t") + b"\2t" + b"\3\0\0\0\0\0\0\0\1" + b"\0"
        + b"\1"
        + b"\x02" + topic_id("u") + b"\2u" + b"\0"
        + b"\0"
    )  # fmt: skip
    assert StatePartitions.of(states.value()) == states
