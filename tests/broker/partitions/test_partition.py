"""State of a replica that outlives its epochs: its log, its watermark, its waiters."""

from __future__ import annotations

import gc

import pytest

from tests.broker.batches import append
from tests.cluster.data_side import partition, topic
from trimaran.broker.partitions.replica import OBJECTS_OF_LOG
from trimaran.broker.partitions.watchers import Interest
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicPartition


class Reader:
    def __init__(self) -> None:
        self.heard: list[str] = []

    def data_changed(self, interest):
        self.heard.append("data")

    def watermark_changed(self, interest):
        self.heard.append("watermark")

    def taken(self) -> list[str]:
        heard, self.heard = self.heard, []
        return heard


def assign(harness, replicas=(11, 12), leader=None, **fields):
    harness.set_image(topic("t", partition(replicas, leader, **fields)))
    return harness.partitions.find(TopicPartition("t", 0))


def watch(held, *, upto_end):
    reader = Reader()
    held.watchers.add(Interest(reader), upto_end=upto_end)
    return reader


# -- notifications


def test_followers_wake_on_writes_consumers_on_commits(harness):
    held = assign(harness, (11,))
    follower, consumer = watch(held, upto_end=True), watch(held, upto_end=False)
    harness.leader()
    assert (follower.taken(), consumer.taken()) == (["data"], ["data"]), "the epoch has begun"
    append(harness, b"a")
    assert (follower.taken(), consumer.taken()) == (["data"], [])
    harness.flush()
    assert (follower.taken(), consumer.taken()) == (["watermark"], ["data"])


def test_flush_without_commit_wakes_nothing(harness):
    held = assign(harness)
    append(harness, b"a")
    consumer = watch(held, upto_end=False)
    harness.flush()
    assert (harness.leader().high_watermark.offset, consumer.taken()) == (0, [])


def test_removed_listener_is_not_called(harness):
    held = assign(harness, (11,))
    for upto_end in (True, False):
        reader = Reader()
        interest = Interest(reader)
        held.watchers.add(interest, upto_end=upto_end)
        held.watchers.discard(interest)
        held.watchers.notify_all()
        assert reader.heard == []


def test_epoch_end_wakes_all_listeners(harness):
    held = assign(harness)
    harness.leader()
    readers = [watch(held, upto_end=upto_end) for upto_end in (True, False)]
    assign(harness, leader=12, leader_epoch=1)
    assert [reader.taken() for reader in readers] == [["data"], ["data"]]


def test_removal_of_replica_wakes_all_listeners(harness):
    held = assign(harness)
    harness.leader()
    readers = [watch(held, upto_end=upto_end) for upto_end in (True, False)]
    harness.set_image()
    assert [reader.taken() for reader in readers] == [["data"], ["data"]]


def test_released_log_wakes_all_listeners(harness):
    held = assign(harness)
    harness.leader()
    reader = watch(held, upto_end=False)
    held.release_log()
    assert reader.taken() == ["data"]


@pytest.mark.parametrize("upto_end", [True, False])
def test_listeners_are_woken_after_the_epoch_end(harness, upto_end):
    """Otherwise a listener would attach itself to the old epoch again."""
    held = assign(harness)
    seen = []

    class Looking(Reader):
        def data_changed(self, interest):
            seen.append((held.leader_or_none, held.open_log, held.deleted))

    held.watchers.add(Interest(Looking()), upto_end=upto_end)
    harness.leader()
    assert len(seen) == 1
    log = held.open_log
    assign(harness, leader=12, leader_epoch=1)
    held.release_log()
    harness.set_image()
    assert seen[1:] == [(None, log, False), (None, log, False), (None, None, True)]


def test_departed_follower_of_unused_partition_wakes_leader(harness):
    """The follower was in sync without an open leader epoch; only a leader can let it join again."""
    held = assign(harness)
    reader = watch(held, upto_end=True)
    assign(harness, isr=(11,), partition_epoch=1)
    assert reader.taken() == ["data"]
    assign(harness, isr=(11,), partition_epoch=2)
    assert reader.taken() == []


def test_deletion_of_records_wakes_all_listeners(harness):
    held = assign(harness, (11,))
    append(harness, b"a")
    harness.flush()
    reader = watch(held, upto_end=False)
    harness.leader().delete_records_before(1)
    assert reader.taken() == ["data"]


def test_open_log_counts_its_objects(harness):
    """The count decides when long-lived objects are frozen, which excludes them from garbage collection."""
    count = 20
    harness.set_image(topic("t", *[partition()] * (count + 1)))
    harness.leader()
    counted = harness.partitions.find(TopicPartition("t", 0)).services.long_lived
    gc.collect()
    gc.disable()
    try:
        tracked, noted = len(gc.get_objects()), counted._count
        for index in range(1, count + 1):
            harness.leader(index=index)
        tracked, noted = len(gc.get_objects()) - tracked, counted._count - noted
    finally:
        gc.enable()
    assert noted == count * OBJECTS_OF_LOG
    assert 0.75 < tracked / noted < 1.33


# -- the watermark


def test_watermark_of_led_partition_is_its_leaders(harness):
    held = assign(harness, (11,))
    held.saved_watermark = 0
    append(harness, b"a")
    harness.flush()
    assert held.high_watermark == 1


def test_watermark_passes_from_leader_to_follower_epoch(harness):
    held = assign(harness, (11, 12), isr=(11,))
    append(harness, b"a")
    harness.flush()
    assign(harness, leader=12, leader_epoch=1)
    assert held.high_watermark == 1


def test_saved_watermark_is_capped_by_log_end(harness):
    held = assign(harness)
    append(harness, b"a", b"b")
    assert held.watermark_in_log() == 0
    held.saved_watermark = 1
    assert held.watermark_in_log() == 1
    held.saved_watermark = 9
    assert held.watermark_in_log() == 2


def test_saved_watermark_is_at_least_log_start(harness):
    held = assign(harness, (11,))
    append(harness, b"a")
    append(harness, b"b")
    harness.flush()
    harness.leader().delete_records_before(1)
    held.saved_watermark = 0
    assert held.watermark_in_log() == 1


# -- an unused partition


@pytest.mark.parametrize(
    ("fields", "follower_id", "expected"),
    [
        ({}, 12, True),
        ({}, 13, False),  # not a replica
        ({"isr": (11,)}, 12, False),  # only a leader can add it to the ISR again
        ({"leader": 12}, 12, False),
    ],
)
def test_untouched_partition_answers_without_a_log(harness, fields, follower_id, expected):
    held = assign(harness, **fields)
    assert held.is_untouched_for(follower_id) == expected


def test_partition_with_log_or_epoch_is_not_untouched(harness):
    held = assign(harness)
    assert held.is_untouched_for(12)
    append(harness, b"a")
    assert not held.is_untouched_for(12)
    held.release_log()
    assert not held.is_untouched_for(12), "it has a directory"


def test_removed_partition_does_not_count_as_untouched(harness):
    held = assign(harness)
    harness.set_image()
    assert not held.is_untouched_for(12)


# -- counters of the ISR


@pytest.mark.parametrize(
    ("fields", "shrinks", "expands"),
    [
        ({"isr": (11, 12)}, 0, 0),
        ({"isr": (12, 11)}, 0, 0),
        ({"isr": (11,)}, 1, 0),
        ({"isr": (11, 12, 13)}, 0, 1),
        ({"isr": (11, 13)}, 1, 1),
        (
            {"isr": (11,), "leader_epoch": 1},
            0,
            0,
        ),  # an election is not an ISR change by a leader
    ],
    ids=str,
)
def test_leader_counts_isr_shrinks_and_expansions(harness, fields, shrinks, expands):
    replicas = (11, 12, 13)
    assign(harness, replicas, isr=(11, 12))
    assign(harness, replicas, partition_epoch=1, **fields)
    traffic = harness.partitions.traffic
    assert (traffic.isr_shrinks, traffic.isr_expands) == (shrinks, expands)


def test_follower_counts_no_isr_changes(harness):
    for epoch, isr in enumerate([(11, 12), (12,), (12, 11)]):
        assign(harness, leader=12, isr=isr, partition_epoch=epoch)
    traffic = harness.partitions.traffic
    assert (traffic.isr_shrinks, traffic.isr_expands) == (0, 0)


# -- epochs


def refused(action):
    with pytest.raises(KafkaError) as raised:
        action()
    return raised.value.code


def test_consumers_read_leaders_or_opened_followers(harness):
    """KIP-392: a log that is not open has no records that its leader lacks."""
    held = assign(harness, (11, 12))
    assert held.open_for_consumers() is held.open_leader()
    append(harness, b"a", b"b")
    held.saved_watermark = 1
    assign(harness, leader=12, leader_epoch=1)
    held.saved_watermark = 1
    reads = held.open_for_consumers()
    assert (reads.log, reads.committed_end, reads.knows_committed) == (held.open_log, 1, True)
    held.release_log()
    assert refused(held.open_for_consumers) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    held.open_follower()
    harness.set_image()
    assert refused(held.open_for_consumers) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_live_epoch_is_that_of_metadata(harness):
    held = assign(harness)
    leader = held.open_leader()
    assert held.open_follower() is None
    assign(harness, leader=12, leader_epoch=1)
    follower = held.open_follower()
    assert leader.ended
    assert held.leader_or_none is None
    assert refused(held.open_leader) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assign(harness, leader_epoch=2)
    assert follower.ended
    assert held.open_follower() is None
    assert held.open_leader().epoch == 2


def test_only_changed_leader_begins_another_epoch(harness):
    held = assign(harness)
    leader = held.open_leader()
    assert not held.apply(held.state._replace(isr=(11,), partition_epoch=1))
    assert held.open_leader() is leader
    assert held.apply(held.state._replace(leader_epoch=1, partition_epoch=2))
    assert held.open_leader() is not leader


def test_leaderless_partition_has_no_leader_epoch(harness):
    held = assign(harness, leader=-1)
    assert (held.leads, held.follows) == (False, False)
    assert held.open_follower() is None
    assert refused(held.open_leader) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_broker_0_is_followed_like_any_other(harness):
    held = assign(harness, (0, 11), leader=0)
    assert held.follows
    assert held.open_follower().leader_id == 0


def test_removed_partition_has_no_epoch_or_log(harness):
    held = assign(harness)
    harness.set_image()
    assert held.deleted
    assert refused(held.open_leader) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    with pytest.raises(KafkaError) as raised:
        _ = held.log
    assert raised.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    gone = assign(harness, leader=12)
    gone.close()
    assert gone.open_follower() is None


def test_released_log_is_not_flushed(harness):
    """The files of a released log may have been renamed."""
    held = assign(harness)
    append(harness, b"a")
    log = held.log
    held.release_log()
    assert held.open_log is None
    harness.flush()
    assert log.flushed_offset == 0


# -- records that are missing


@pytest.mark.parametrize("known_end", [0, 1, 3])
@pytest.mark.parametrize("watermark", [0, 1, 3])
def test_released_log_keeps_largest_known_end(harness, known_end, watermark):
    """The replica may have lost records already, or may lose some while its log is closed (P19)."""
    held = assign(harness, leader=12)
    held.known_end, held.saved_watermark = known_end, watermark
    held.release_log()
    assert held.known_end == known_end, "no log was open"
    held.begin_empty()
    held.open_follower().start_at(3)
    held.known_end, held.saved_watermark = known_end, watermark
    held.release_log()
    assert (held.known_end, held.open_log) == (max(known_end, watermark), None)


async def test_open_log_is_not_checked_again(harness, monkeypatch):
    held = assign(harness, (11,))
    append(harness, b"a")
    checked = []

    async def check_log(*which):
        checked.append(which[0])

    monkeypatch.setattr(harness.directories, "check_log", check_log)
    await held.check()
    assert checked == []
    held.release_log()
    await held.check()
    assert checked == [("t", 0)]


@pytest.mark.parametrize("is_open", [True, False])
@pytest.mark.parametrize("has_directory", [True, False])
def test_accepted_loss_lowers_recovery_point_of_open_log(
    harness, monkeypatch, is_open, has_directory
):
    held = assign(harness, leader=12)
    held.begin_empty()
    held.open_follower().start_at(2)
    if not is_open:
        held.release_log()
    if not has_directory:
        monkeypatch.setattr(harness.directories, "holding", lambda _key: None)
    lowered = []
    monkeypatch.setattr(
        harness.directory.offsets, "lower_recovery_point", lambda *point: lowered.append(point)
    )
    held.known_end = 5
    held.accept_loss()
    assert held.known_end == 0
    assert lowered == ([(("t", 0), 2)] if is_open and has_directory else [])


def test_closed_partition_stays_closed(harness):
    held = assign(harness)
    leader = held.open_leader()
    held.close()
    assert leader.ended
    assert refused(held.open_leader) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_flushes_reach_the_follower(harness):
    held = assign(harness, leader=12)
    heard = []
    held.open_follower().on_ready = heard.append
    held.open_follower()._flushed(0)
    assert heard == [held.open_follower()]
