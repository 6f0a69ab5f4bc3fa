"""A broker's partitions follow the image, one rule per test: what is found, begins, ends, or is put aside."""

from __future__ import annotations

import pytest
from immutables import Map

from tests.broker.batches import append, batch
from tests.broker.partitions.listening import Listener, code_of
from tests.cluster.data_side import open_harness, partition, registration, topic
from trimaran.broker.events import REPLICA_UNUSABLE
from trimaran.broker.storage.directories import LogDirectories
from trimaran.log.batches.batch import BatchView
from trimaran.node.runtime.steps import at_once
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicPartition
from trimaran.wire.text.events import event_of


def names(harness):
    return [partition.name for partition in harness.partitions]


# -- look-ups


def test_request_without_epoch_is_always_served(harness):
    harness.set_image(topic("t", partition(leader_epoch=4)))
    assert harness.partitions.leader_of(TopicPartition("t", 0)).epoch == 4
    assert harness.partitions.leader_of(TopicPartition("t", 0), -1).epoch == 4


def test_request_with_epoch_needs_that_epoch(harness):
    """This includes the very first epoch, which is 0."""
    partitions = harness.partitions
    harness.set_image(topic("t", partition()))
    assert partitions.leader_of(TopicPartition("t", 0), 0).epoch == 0
    assert (
        code_of(partitions.leader_of, TopicPartition("t", 0), 1) is ErrorCode.UNKNOWN_LEADER_EPOCH
    )
    harness.set_image(topic("t", partition(leader_epoch=1)))
    assert partitions.leader_of(TopicPartition("t", 0), 1).epoch == 1
    assert code_of(partitions.leader_of, TopicPartition("t", 0), 0) is ErrorCode.FENCED_LEADER_EPOCH


def test_follower_is_found_but_does_not_lead(harness):
    harness.set_image(topic("t", partition((11, 12), leader=12)))
    assert harness.partitions.hosted(TopicPartition("t", 0)).follows
    assert (
        code_of(harness.partitions.leader_of, TopicPartition("t", 0))
        is ErrorCode.NOT_LEADER_OR_FOLLOWER
    )


def test_unknown_topic_id_is_refused(harness):
    unknown = b"?" * 16
    assert code_of(harness.partitions.topic_name, unknown) is ErrorCode.UNKNOWN_TOPIC_ID


def test_image_provides_state_of_remote_partitions(harness):
    elsewhere = partition((12,))
    harness.set_image(topic("t", elsewhere))
    assert harness.partitions.state_of(TopicPartition("t", 0)) == elsewhere
    assert harness.partitions.state_of(TopicPartition("t", 1)) is None
    assert harness.partitions.state_of(TopicPartition("u", 0)) is None


# -- following the image


def test_unassigned_partition_is_absent(harness):
    harness.set_image(topic("t", partition((12,)), partition()))
    assert names(harness) == ["t-1"]


def test_reassigned_partition_is_deleted_here(harness):
    harness.set_image(topic("t", partition((11, 12)), partition((11, 12))))
    append(harness, b"a")
    append(harness, b"a", index=1)
    harness.set_image(topic("t", partition((12,)), partition((11, 12))))
    assert names(harness) == ["t-1"]
    assert harness.directory.partitions() == {TopicPartition("t", 1)}


def test_missing_topic_is_deleted_locally(harness):
    harness.set_image(topic("t", partition()), topic("u", partition()))
    append(harness, b"a")
    harness.set_image(topic("u", partition()))
    assert names(harness) == ["u-0"]
    assert harness.directory.partitions() == set()
    assert (
        code_of(harness.partitions.leader_of, TopicPartition("t", 0))
        is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )


def test_partition_removed_from_topic_is_gone(harness):
    both = topic("t", partition(), partition())
    harness.set_image(both)
    harness.partitions.apply_topic("t", both._replace(partitions=Map({0: both.partitions[0]})))
    assert names(harness) == ["t-0"]


def test_recreated_topic_keeps_nothing_of_old(harness):
    """P14: neither records nor the epoch of the old topic stay."""
    old = topic("t", partition())
    harness.set_image(old)
    append(harness, b"old")
    leader = harness.leader()
    new = old._replace(id=b"another".ljust(16))
    harness.partitions.apply_changes(new, new.partitions)
    assert leader.ended
    assert harness.partitions.find(TopicPartition("t", 0)).topic_id == new.id
    assert harness.leader().log.log_end_offset == 0


def test_deleted_topic_removes_only_its_own_partitions(harness):
    """The broker may learn of the deletion after the creation of another topic with its name."""
    old = topic("t", partition())
    new = old._replace(id=b"another".ljust(16))
    harness.set_image(new)
    harness.partitions.remove(old, 0)
    assert names(harness) == ["t-0"]
    harness.partitions.remove(new, 7)
    assert names(harness) == ["t-0"]
    harness.partitions.remove(new, 0)
    assert names(harness) == []


def test_follower_replicates_from_leader_of_each_epoch(harness):
    for epoch, leader in enumerate((12, 13, 11, 12)):
        state = partition((11, 12, 13), leader, leader_epoch=epoch, partition_epoch=epoch)
        harness.set_image(topic("t", state))
    harness.set_image()
    assert harness.follows.followed == ["+t-0@0", "-t-0", "+t-0@1", "-t-0", "+t-0@3", "-t-0"]


def test_leader_change_keeps_records_above_known_watermark(harness):
    """Records above the known watermark may be committed: the replica queries the leader for the point of divergence
    (KAFKA-1211, KIP-101).
    """
    harness.set_image(topic("t", partition((11, 12, 13), 12)))
    append_fetched(harness, b"a", b"b")
    held = harness.partitions.find(TopicPartition("t", 0))
    held.open_follower().take_watermark(1, 0)
    state = partition((11, 12, 13), 13, leader_epoch=1, partition_epoch=1)
    harness.set_image(topic("t", state))
    assert held.open_follower().epoch == 1
    assert (held.log.log_end_offset, held.saved_watermark) == (2, 1)


def test_same_image_again_changes_nothing(harness):
    state = topic("t", partition((11, 12)), partition((11, 12), leader=12))
    listener = Listener()
    harness.partitions.listen("t", listener)
    harness.set_image(state)
    harness.set_image(state)
    assert listener.heard == ["+0@0"]
    assert harness.follows.followed == ["+t-1@0"]


def test_leaderless_epoch_is_neither_led_nor_followed(harness):
    listener = Listener()
    harness.partitions.listen("t", listener)
    harness.set_image(topic("t", partition((11, 12))))
    harness.set_image(topic("t", partition((11, 12), leader=-1, leader_epoch=1)))
    assert listener.heard == ["+0@0", "-0@0"]
    assert not [told for told in harness.follows.followed if told.startswith("+")]


def test_partitions_of_topic_change_independently(harness):
    listener = Listener()
    harness.partitions.listen("t", listener)
    harness.set_image(topic("t", partition(), partition()))
    harness.set_image(topic("t", partition(leader_epoch=1, partition_epoch=1), partition()))
    assert listener.heard == ["+0@0", "+1@0", "-0@0", "+0@1"]


def test_unopenable_partition_is_reported_without_delaying_others(harness, monkeypatch, caplog):
    listener = Listener()
    harness.partitions.listen("t", listener)
    open_log = LogDirectories.open_log

    def open_or_fail(directories, key, *more):
        if key.partition == 0:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        return open_log(directories, key, *more)

    monkeypatch.setattr(LogDirectories, "open_log", open_or_fail)
    harness.set_image(topic("t", partition(), partition()))
    assert listener.heard == ["+1@0"]
    assert [event_of(record) for record in caplog.records].count(REPLICA_UNUSABLE) == 1


def test_counters_of_removed_topic_stay_in_total(harness):
    harness.set_image(topic("t", partition(), partition()))
    harness.partitions.traffic.find("t").fetches += 5
    harness.set_image(topic("t", partition(), partition((12,))))
    assert harness.partitions.traffic.find("t").fetches == 5
    harness.set_image()
    assert harness.partitions.traffic.find("t") is None
    assert harness.partitions.traffic.total().fetches == 5


# -- reopened logs


def test_reopening_ends_epochs_before_the_move(harness):
    listener = Listener()
    harness.partitions.listen("t", listener)
    harness.set_image(topic("t", partition(), partition()), topic("f", partition((11, 12), 12)))
    led, followed = (
        harness.leader(),
        harness.partitions.find(TopicPartition("f", 0)).open_follower(),
    )
    listener.heard.clear()
    harness.follows.followed.clear()

    def move():
        assert led.ended
        assert followed.ended
        listener.heard.append("move")
        harness.follows.followed.append("move")

    harness.partitions.reopen(list(harness.partitions), move)
    assert listener.heard == ["-0@0", "-1@0", "move", "+0@0", "+1@0"]
    assert harness.follows.followed == ["-f-0", "move", "+f-0@0"]


def test_failed_move_reopens_partition_too(harness):
    harness.set_image(topic("t", partition()))
    append(harness, b"a")

    def move():
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        harness.partitions.reopen([harness.partitions.find(TopicPartition("t", 0))], move)
    assert harness.leader().log.log_end_offset == 1


# -- all partitions


def test_leaders_check_their_followers_periodically(harness):
    brokers = tuple(registration(node_id) for node_id in (11, 12))
    harness.set_image(
        topic("t", partition((11, 12)), partition((11, 12)), partition()), brokers=brokers
    )
    for index in (0, 2):
        append(harness, b"a", index=index)
    harness.now += 100
    for each_partition in harness.partitions:
        each_partition.drop_lagging_followers()
    [(owner, change)] = harness.isr_changes.submitted
    assert owner is harness.leader()
    assert [member for member, _ in change.new_isr] == [11]


def test_only_changed_registrations_reexamine_followers(harness):
    looked = []
    harness.set_image(topic("t", partition((11, 12)), partition((11, 13)), partition((11, 12))))
    for index in (0, 1):
        harness.leader(index=index).reconsider_followers = lambda index=index: looked.append(index)
    harness.partitions.brokers_changed(frozenset({12, 14}))
    assert looked == [0]
    assert harness.partitions.find(TopicPartition("t", 2)).leader_or_none is None, (
        "nobody asked for it"
    )


@pytest.mark.parametrize(("name", "changed"), [("t", ["t"]), (None, ["t", "u"]), ("x", [])])
def test_changed_settings_reach_the_affected_logs(harness, name, changed):
    harness.set_image(topic("t", partition()), topic("u", partition()))
    logs = {name: harness.leader(name).log for name in ("t", "u")}
    configs = {(2, log): {"retention.ms": "5"} for log in logs}
    harness.set_image(topic("t", partition()), topic("u", partition()), configs=configs)
    harness.partitions.settings_changed(name)
    assert [key for key, log in logs.items() if log.config.retention_ms == 5] == changed


def test_watermarks_of_unopened_partitions_are_kept(tmp_path):
    harness = open_harness(tmp_path)
    harness.set_image(topic("t", partition(), partition()), topic("u", partition((11, 12), 12)))
    append(harness, b"a")
    harness.flush()
    harness.partitions.find(TopicPartition("u", 0)).saved_watermark = 0
    harness.partitions.close()
    harness.directory.close(broker_epoch=5, high_watermarks={TopicPartition("t", 0): 1})
    again = open_harness(tmp_path)
    again.set_image(topic("t", partition(), partition()), topic("u", partition((11, 12), 12)))
    assert at_once(again.partitions.watermarks()) == {TopicPartition("t", 0): 1}
    again.leader("t", 1)
    assert at_once(again.partitions.watermarks()) == {
        TopicPartition("t", 0): 1,
        TopicPartition("t", 1): 0,
    }


def test_watermark_of_deleted_namesake_is_forgotten(tmp_path):
    """The checkpoint has only names: the new topic's records at the same offsets are not committed (P9, P14)."""
    harness = open_harness(tmp_path)
    harness.set_image(topic("t", partition((11, 12), 12)))
    append_fetched(harness, b"a", b"b")
    harness.partitions.close()
    harness.directory.close(broker_epoch=None, high_watermarks={TopicPartition("t", 0): 2})
    harness.directory.save_checkpoints({TopicPartition("t", 0): 2})
    again = open_harness(tmp_path)
    again.set_image(topic("t", partition((11, 12), 12))._replace(id=bytes(15) + b"\x63"))
    append_fetched(again, b"c", b"d")
    held = again.partitions.find(TopicPartition("t", 0))
    held.open_follower().take_watermark(0, 0)
    assert (held.log.log_end_offset, held.high_watermark) == (2, 0)


def append_fetched(harness, *values):
    follower = harness.partitions.find(TopicPartition("t", 0)).open_follower()
    for offset, value in enumerate(values):
        one = batch(value)
        BatchView(one).stamp(offset, 0)
        follower.append(one)
    harness.flush()


def test_closing_ends_all_epochs(harness):
    harness.set_image(topic("t", partition(), partition((11, 12), 12)))
    leader, follower = (
        harness.leader(),
        harness.partitions.find(TopicPartition("t", 1)).open_follower(),
    )
    harness.partitions.close()
    assert leader.ended
    assert follower.ended
