"""Partitions follow the metadata image: epochs, listeners, topic ids, lazy opening."""

from __future__ import annotations

import pytest

from tests.broker.batches import append
from tests.broker.partitions.listening import Listener, code_of
from tests.cluster.data_side import (
    open_harness,
    partition,
    registration,
    topic,
    topic_id,
    topics_image,
)
from tests.slow_steps import calls_of_each
from trimaran.broker.storage.new_replicas import Standing
from trimaran.node.runtime.steps import at_once
from trimaran.quorum.metadata.image import UNASSIGNED_DIRECTORY
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicPartition


def test_unused_partition_has_no_directory(harness):
    """A partition uses no files before its first record."""
    harness.set_image(topic("t", *[partition() for _ in range(100)]))
    assert harness.directory.partitions() == set()
    append(harness, b"a", index=42)
    assert harness.directory.partitions() == {TopicPartition("t", 42)}


def test_new_partition_inherits_no_high_watermark(tmp_path):
    """The log does not exist before a clean restart. Kafka leaves such a checkpoint entry when a directory becomes
    empty.
    """
    harness = open_harness(tmp_path)
    harness.directory.close(
        broker_epoch=1, high_watermarks={TopicPartition("t", 0): 30, TopicPartition("u", 0): 30}
    )
    harness = open_harness(tmp_path)
    harness.set_image(topic("t", partition()))
    harness.directory.close(broker_epoch=2, high_watermarks={})
    harness = open_harness(tmp_path)
    image = topic("t", partition()), topic("u", partition())
    harness.partitions.begin_with(topics_image(*image))
    harness.set_image(*image)
    assert harness.leader().log.log_end_offset == 0
    with pytest.raises(KafkaError, match="up to offset 30 were committed"):
        harness.leader("u")


def test_missing_partitions_have_specific_codes(harness):
    harness.set_image(
        topic("t", partition((12,)), partition((11, 12), leader=12, leader_epoch=3)),
        brokers=(registration(11), registration(12)),
    )
    assert (
        code_of(harness.partitions.leader_of, TopicPartition("t", 0))
        is ErrorCode.NOT_LEADER_OR_FOLLOWER
    )
    assert (
        code_of(harness.partitions.leader_of, TopicPartition("t", 1))
        is ErrorCode.NOT_LEADER_OR_FOLLOWER
    )
    assert (
        code_of(harness.partitions.leader_of, TopicPartition("t", 2))
        is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )
    assert (
        code_of(harness.partitions.leader_of, TopicPartition("u", 0))
        is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )
    assert (
        code_of(harness.partitions.leader_of, TopicPartition("t", 1), 2)
        is ErrorCode.FENCED_LEADER_EPOCH
    )
    assert (
        code_of(harness.partitions.leader_of, TopicPartition("t", 1), 4)
        is ErrorCode.UNKNOWN_LEADER_EPOCH
    )


def test_listener_receives_every_epoch_in_order(harness):
    listener = Listener()
    harness.partitions.listen("t", listener)
    harness.set_image(topic("t", partition((11, 12))), topic("u", partition()))
    harness.set_image(topic("t", partition((11, 12), leader_epoch=1, partition_epoch=1)))
    harness.set_image(topic("t", partition((11, 12), leader=12, leader_epoch=2, partition_epoch=2)))
    harness.set_image(topic("t", partition((11, 12), leader=11, leader_epoch=3, partition_epoch=3)))
    harness.set_image()
    assert listener.heard == ["+0@0", "-0@0", "+0@1", "-0@1", "+0@3", "-0@3"]


def test_isr_change_begins_no_new_epoch(harness):
    listener = Listener()
    harness.partitions.listen("t", listener)
    harness.set_image(topic("t", partition((11, 12))))
    harness.set_image(topic("t", partition((11, 12), isr=(11,), partition_epoch=1)))
    assert listener.heard == ["+0@0"]
    assert harness.leader().isr.isr == (11,)


def test_following_begins_and_ends(harness):
    harness.set_image(topic("t", partition((11, 12), leader=12)))
    harness.set_image(topic("t", partition((11, 12), leader=12, leader_epoch=1)))
    harness.set_image(topic("t", partition((11, 12), leader=-1, leader_epoch=2)))
    harness.set_image()
    assert harness.follows.followed == ["+t-0@0", "-t-0", "+t-0@1", "-t-0", "-t-0"]


def test_deleted_topic_leaves_no_directory(harness):
    harness.set_image(topic("t", partition()))
    append(harness, b"a")
    harness.set_image()
    assert harness.directory.partitions() == set()
    assert (
        code_of(harness.partitions.leader_of, TopicPartition("t", 0))
        is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )


def test_recreated_topic_begins_empty(harness):
    """P14: no byte of one topic id appears under another."""
    harness.set_image(topic("t", partition()))
    append(harness, b"old")
    harness.set_image(topic("t", partition())._replace(id=b"another".ljust(16)))
    assert harness.leader().log.log_end_offset == 0
    assert harness.directory.topic_id(TopicPartition("t", 0)) == b"another".ljust(16)


def test_directory_of_another_topic_id_is_moved_aside(harness, tmp_path):
    harness.directory.create_log(
        TopicPartition("t", 0), b"stranger".ljust(16), harness.settings.of("t").log
    )
    harness.set_image(topic("t", partition()))
    append(harness, b"a")
    assert harness.directory.topic_id(TopicPartition("t", 0)) == topic("t").id
    assert any(path.name.endswith("-stray") for path in (tmp_path).iterdir())


async def test_strays_are_put_aside(harness):
    config = harness.settings.of("t").log
    harness.directory.create_log(TopicPartition("mine", 0), topic("mine").id, config)
    harness.directory.create_log(TopicPartition("gone", 0), topic("gone").id, config)
    await harness.directories.drop_strays({TopicPartition("mine", 0)})
    assert harness.directory.partitions() == {TopicPartition("mine", 0)}


def test_changed_configs_reach_open_logs(harness):
    harness.set_image(topic("t", partition()))
    log = harness.leader().log
    harness.set_image(topic("t", partition()), configs={(2, "t"): {"retention.ms": "5"}})
    harness.partitions.settings_changed("t")
    assert log.config.retention_ms == 5
    assert harness.settings.of("t").min_insync_replicas == 1


def test_watermarks_are_saved_and_bounded_by_the_log(tmp_path):
    harness = open_harness(tmp_path)
    harness.set_image(topic("t", partition((11, 12))), topic("u", partition()))
    append(harness, b"a", b"b", name="u")
    harness.flush()
    saved = at_once(harness.partitions.watermarks())
    assert saved == {TopicPartition("u", 0): 2}, "nobody used the other"
    harness.partitions.close()
    harness.directory.close(
        broker_epoch=5, high_watermarks={TopicPartition("t", 0): 9, TopicPartition("u", 0): 2}
    )
    again = open_harness(tmp_path)
    again.set_image(topic("t", partition((11, 12))), topic("u", partition((11, 12))))
    assert again.leader("t").high_watermark.offset == 0, "the log has nothing"
    assert again.leader("u").high_watermark.offset == 2


def test_watermarks_are_collected_in_steps(harness):
    harness.set_image(topic("t", *[partition() for _ in range(1_000)]))
    calls, _ = calls_of_each(harness.partitions.watermarks())
    assert len(calls) == 1_001
    assert max(calls) < 50


def test_changes_cost_nothing_for_other_partitions(harness):
    """The result equals that of `apply_topic` for the whole topic, for the partitions that changed."""
    harness.set_image(topic("t", partition(), partition(), partition((12,))))
    partitions = harness.partitions
    untouched = partitions.find(TopicPartition("t", 0))
    new = topic("t", partition((12,)), partition(leader_epoch=1), partition(), partition())
    partitions.apply_changes(new, {index: new.partitions[index] for index in (1, 2, 3)})
    assert partitions.find(TopicPartition("t", 0)) is untouched  # never requested
    assert partitions.find(TopicPartition("t", 1)).state.leader_epoch == 1
    partitions.apply_changes(new, {0: new.partitions[0]})
    held = [partitions.find(TopicPartition("t", index)) is not None for index in range(4)]
    assert held == [False, True, True, True]


def test_lost_replica_restarts_only_if_replaceable(tmp_path):
    """KIP-858: its directory no longer belongs to this broker."""
    harness = open_harness(tmp_path)
    told = []
    harness.directories.on_placed = lambda *placed: told.append(placed)
    elsewhere = bytes([9] * 16)
    alone = partition((11,), leader=-1, directories=(elsewhere,))
    shared = partition((11, 12), leader=-1, isr=(11,), directories=(elsewhere, elsewhere))
    harness.set_image(topic("t", alone, shared, partition((11,), leader=-1)))
    assert told == [((topic_id("t"), 0), UNASSIGNED_DIRECTORY)]


def test_follower_reports_replaced_disk_before_records(tmp_path):
    """KIP-858: otherwise it would stay out of the ISR until the first Produce request."""
    harness = open_harness(tmp_path)
    told = []
    harness.directories.on_placed = lambda *placed: told.append(placed)
    elsewhere = bytes([9] * 16)
    followed = partition((11, 12), leader=12, isr=(12,), directories=(elsewhere, elsewhere))
    harness.set_image(topic("t", followed, partition((11, 12), leader=12)))
    assert told == [((topic_id("t"), 0), UNASSIGNED_DIRECTORY)]


def test_replica_is_created_only_once(harness):
    """A log that has been created once is never new again, whatever happens to it."""
    harness.set_image(topic("t", partition()))
    held = harness.partitions.find(TopicPartition("t", 0))
    assert held.standing is Standing.NEW
    append(harness, b"a")
    assert held.standing is Standing.LAST
    harness.partitions.reopen([held], lambda: harness.directory.put_aside(TopicPartition("t", 0)))
    assert not held.is_new
    assert (
        code_of(harness.partitions.leader_of, TopicPartition("t", 0))
        is ErrorCode.KAFKA_STORAGE_ERROR
    )
    assert harness.directory.partitions() == set()


def test_replica_returning_after_reassignment_is_new(harness):
    """This holds while the directory with the former replica is offline."""
    harness.set_image(topic("t", partition()))
    append(harness, b"a")
    harness.directory.health.fail("the disk is gone")
    harness.set_image(topic("t", partition((12,))))
    assert harness.directory.partitions() == set()
    harness.set_image(topic("t", partition((12, 11))))
    assert harness.partitions.find(TopicPartition("t", 0)).standing is Standing.NEW
