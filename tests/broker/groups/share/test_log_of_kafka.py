"""The records of a share group that a broker of Apache Kafka 4.4.0 has written: two members join and leave.

Each line of the file is a record of `__consumer_offsets`: key and value in hex, "-" for a tombstone. The same events
here give the same records, apart from ids, times, the hash of the topics and the choice of partitions.
"""

from __future__ import annotations

from pathlib import Path

from tests.broker.groups.share.driver import ShareDriver
from trimaran.broker.groups.records import GroupRecord
from trimaran.broker.groups.registry import KINDS, serde_of
from trimaran.broker.groups.share.state_partitions import StatePartitions, TopicState
from trimaran.broker.groups.store import GroupStore
from trimaran.wire.records.share_groups import (
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMetadataValue,
)

LOG = Path(__file__).parent / "testdata" / "kafka_4.4.hex"
TOPIC_ID = bytes.fromhex("462e8e3ae6b747fc8364fb26966449ae")


def rows():
    for line in LOG.read_text().splitlines():
        key, value = line.split()
        yield bytes.fromhex(key), None if value == "-" else bytes.fromhex(value)


def test_records_of_kafka_are_written_back_unchanged():
    serde = serde_of()
    read = [serde.decode(*row) for row in rows()]
    assert [(new.key, new.value) for new in (serde.encode(record, 0) for record in read)] == [
        *rows()
    ]


def test_group_of_kafka_is_loaded_at_each_record():
    serde, store, seen = serde_of(), GroupStore(KINDS), []
    for offset, row in enumerate(rows()):
        store.replay(offset, serde.decode(*row))
        group = store.of("share")["g"]
        state = (group.epoch, group.assignment_epoch, len(group.members))
        if not seen or seen[-1] != state:
            seen.append(state)
    assert seen[-3:] == [(5, 5, 0), (6, 5, 0), (6, 6, 0)]
    assert group.states == StatePartitions({}, {TOPIC_ID: TopicState("t", frozenset({0, 1, 2}))})


def outline(record: GroupRecord):
    """Returns the part of a record that does not depend on ids, times, topics and partitions."""
    value = record.value
    name = type(record.key).__name__
    if isinstance(value, ShareGroupMetadataValue):
        return name, value.epoch
    if isinstance(value, ShareGroupTargetAssignmentMetadataValue):
        return name, value.assignment_epoch, value.assignment_timestamp == 0
    if isinstance(value, ShareGroupCurrentMemberAssignmentValue):
        return name, value.member_epoch, value.previous_member_epoch, value.state
    if isinstance(value, ShareGroupStatePartitionMetadataValue):
        topics = (value.initializing_topics, value.initialized_topics)
        return name, [[topic.partitions for topic in found] for found in topics]
    return name, value is None


def test_same_events_give_the_records_of_kafka():
    serde, driver = serde_of(), ShareDriver()
    driver.topics.set("t", 3)
    driver.now = 1.0
    first = driver.beat("a")
    driver.initialize()
    first = driver.beat("a", first.member_epoch)
    second = driver.beat("b")
    first = driver.beat("a", first.member_epoch)
    driver.beat("b", -1)
    driver.beat("a", first.member_epoch)
    driver.beat("a", -1)
    expected = [outline(serde.decode(*row)) for row in rows()]
    assert [outline(record) for record in driver.log] == expected
    assert second.member_epoch == first.member_epoch == 4
