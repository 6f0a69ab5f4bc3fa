"""The rules of a follower epoch: fetch positions, appends, truncations."""

from __future__ import annotations

import pytest

from tests.broker.batches import batch
from tests.cluster.data_side import open_harness, partition, topic, topics_image
from trimaran.broker.partitions.watchers import Interest
from trimaran.log.batches.batch import iter_batches
from trimaran.log.config import LogConfig
from trimaran.log.partitions.opening import LastRun
from trimaran.log.partitions.partition_log import PartitionLog
from trimaran.wire.errors import KafkaError, RemoteProtocolError
from trimaran.wire.identity import TopicPartition

TIMESTAMP_MS = 1_700_000_000_000


@pytest.fixture
def harness(tmp_path):
    return open_harness(tmp_path, 12)


def follow(harness, leader_epoch=0, leader=11):
    state = partition((11, 12), leader, leader_epoch=leader_epoch, partition_epoch=leader_epoch)
    harness.set_image(topic("t", state))
    return harness.partitions.find(TopicPartition("t", 0))


def record(offset, *values, epoch=0):
    data = batch(*(values or (b"x",)), timestamp_ms=TIMESTAMP_MS)
    next(iter_batches(data)).stamp(offset, epoch)
    return data


def follow_with(harness, *epochs, leader_epoch=9):
    """Returns the follower, in `leader_epoch`, of a log with one record per element of `epochs`, written in
    that epoch.
    """
    for offset, epoch in enumerate(epochs):
        follow(harness, epoch).open_follower().append(record(offset, epoch=epoch))
        harness.flush()
    return follow(harness, leader_epoch)


def where(follower):
    position = follower.position()
    return position.offset, position.last_fetched_epoch, position.log_start_offset


# -- fetch positions


def test_replica_without_directory_fetches_like_empty_log(harness):
    held = follow(harness)
    assert held.open_follower().ready
    assert where(held.open_follower()) == (0, -1, 0)
    assert held.open_log is None


def copy_of_an_earlier_replica(path):
    """Returns a broker that has begun with a replica whose disk holds only the leftovers of an earlier assignment."""
    before = open_harness(path, 12)
    follow(before).open_follower().append(record(0))
    before.flush()
    before.directories.close(broker_epoch=None, high_watermarks={})
    (path / "t-0").rename(path / f"t-0.{'a' * 32}-delete")
    now = open_harness(path, 12)
    spare = topic("t", partition((11, 12), 11, isr=(11,)))
    now.partitions.begin_with(topics_image(spare))
    now.set_image(spare)
    return now


def join(harness, leader, leader_epoch=0, **fields):
    state = partition(
        (11, 12), leader, isr=(11, 12), leader_epoch=leader_epoch, partition_epoch=1, **fields
    )
    harness.set_image(topic("t", state))
    return harness.partitions.find(TopicPartition("t", 0))


@pytest.mark.parametrize(("leader", "leader_epoch"), [(11, 0), (13, 1), (12, 1)])
def test_replica_that_joined_empty_gets_a_log(tmp_path, leader, leader_epoch):
    harness = copy_of_an_earlier_replica(tmp_path)
    assert where(harness.partitions.find(TopicPartition("t", 0)).open_follower()) == (0, -1, 0)
    held = join(harness, leader, leader_epoch)
    held = join(harness, leader, leader_epoch + 1)
    assert held.log.log_end_offset == 0


@pytest.mark.parametrize("has_followed", [True, False])
def test_replica_elected_uncleanly_keeps_its_copy(tmp_path, has_followed):
    """Otherwise its records would be lost: no leader has seen that it is empty."""
    harness = copy_of_an_earlier_replica(tmp_path)
    if has_followed:
        assert harness.partitions.find(TopicPartition("t", 0)).open_follower().is_new
    held = join(harness, 12, 1, leader_recovery_state=int(has_followed))
    with pytest.raises(KafkaError, match="may be all that is left of it"):
        held.log  # noqa: B018


def test_appended_records_count_as_unflushed(harness):
    """Producers to this broker's directory count on a limit of unflushed records, too."""
    data = record(0)
    follow(harness).open_follower().append(data)
    assert harness.group_commit.unflushed_bytes == len(data)
    harness.flush()
    assert harness.group_commit.unflushed_bytes == 0


def test_fetch_waits_for_flush_of_own_log(harness):
    """The leader treats the fetch offset as durable on this replica."""
    follower = follow(harness).open_follower()
    heard = []
    follower.on_ready = heard.append
    follower.append(record(0, epoch=0))
    assert not follower.ready
    harness.flush()
    assert follower.ready
    assert heard == [follower]
    assert where(follower) == (1, 0, 0)


def test_partial_flush_does_not_make_follower_ready(harness):
    """Two responses may be in progress: the second arrives while the first is being flushed."""
    follower = follow(harness).open_follower()
    heard = []
    follower.on_ready = heard.append
    follower.append(record(0))
    flush = follower.log.prepare_flush()
    follower.append(record(1))
    flush.run()
    follower._flushed(follower.log.finish_flush(flush))
    assert heard == []
    harness.flush()
    assert heard == [follower]


def test_epoch_begun_with_unflushed_records_awaits_flush(harness):
    follow(harness).open_follower().append(record(0))
    follower = follow(harness, 1).open_follower()
    heard = []
    follower.on_ready = heard.append
    assert not follower.ready
    harness.flush()
    assert heard == [follower]


def test_recovered_records_are_flushed_before_fetching(harness):
    """Recovered records may be only in the page cache, and flushed on no other replica."""
    held = follow(harness)
    held.open_follower().append(record(0))
    held.release_log()
    follower = held.open_follower()
    assert not follower.ready
    harness.flush()
    assert follower.ready


def test_ended_epoch_ignores_its_flush(harness):
    follower = follow(harness).open_follower()
    heard = []
    follower.on_ready = heard.append
    follower.append(record(0))
    follow(harness, 1)
    harness.flush()
    follower._flushed(0)
    assert follower.ended
    assert heard == []


def test_fetch_names_last_read_epoch(harness):
    assert where(follow_with(harness, 0, 0, 4).open_follower()) == (3, 4, 0)


# -- appended records


def test_records_are_taken_over_once(harness):
    follower = follow(harness).open_follower()
    assert follower.append(record(0))
    harness.flush()
    for nothing_new in (record(0), memoryview(b"")):
        assert not follower.append(nothing_new)
        assert harness.group_commit._dirty == {}
    assert follower.append(record(1))
    assert follower.log.log_end_offset == 2


def test_only_newly_appended_bytes_are_counted(harness):
    follower = follow(harness).open_follower()
    for offset in (0, 0, 1):
        follower.append(record(offset))
    assert harness.partitions.traffic.find("t").replication_bytes_in == 2 * len(record(0))


def test_records_before_invalid_batch_are_flushed(harness):
    """The valid records are in the log, so they must become durable; otherwise the follower would never fetch again."""
    follower = follow(harness).open_follower()
    spoiled = bytearray(record(1))
    spoiled[-1] ^= 1
    with pytest.raises((KafkaError, RemoteProtocolError)):
        follower.append(memoryview(bytearray(bytes(record(0)) + bytes(spoiled))))
    harness.flush()
    assert follower.ready


@pytest.mark.parametrize("length", [-12, -13, 0])
def test_batch_of_size_zero_is_refused(harness, length):
    """The data after such a batch cannot be parsed."""
    follower = follow_with(harness, 0).open_follower()
    data = bytearray(record(0))
    data[8:12] = length.to_bytes(4, "big", signed=True)
    with pytest.raises((KafkaError, RemoteProtocolError)):
        follower.append(memoryview(data))
    assert follower.log.log_end_offset == 1


@pytest.mark.parametrize(
    ("known", "told", "expected"),
    [(0, 0, 0), (0, 2, 2), (0, 3, 3), (0, 7, 3), (2, 1, 2), (2, 3, 3)],
)
def test_watermark_follows_leader_up_to_own_end(harness, known, told, expected):
    held = follow_with(harness, 0, 0, 0)
    held.saved_watermark = known
    held.open_follower().take_watermark(told, 0)
    assert held.high_watermark == expected


class Consumer(Interest):
    """A consumer that waits for the watermark of the follower that it reads from (KIP-392)."""

    def __init__(self) -> None:
        super().__init__(self)
        self.heard = 0

    def data_changed(self, _interest) -> None:
        self.heard += 1


def test_consumers_are_woken_only_by_watermark(harness):
    held, consumer = follow_with(harness, 0, 0, 0), Consumer()
    held.watchers.add(consumer, upto_end=False)
    heard = []
    for watermark in (1, 1, 0, 3, 7):
        held.open_follower().take_watermark(watermark, 0)
        heard.append(consumer.heard)
    assert heard == [1, 1, 1, 2, 2]


def test_missing_replica_has_no_committed_records(harness):
    """The directory of the replica is missing; the checkpoint belongs to a former replica."""
    held = follow(harness)
    held.saved_watermark = 9
    held.open_follower().take_watermark(3, 0)
    assert held.high_watermark == 0


def test_watermark_is_never_below_log_start(harness):
    """This holds whatever a checkpoint or a new leader reports."""
    held = follow_with(harness, 0, 0, 0)
    held.open_follower().take_watermark(3, 2)
    held.saved_watermark = 0
    held.open_follower().take_watermark(1, 2)
    assert held.high_watermark == 2


@pytest.mark.parametrize(
    ("watermark", "leader_start", "start"), [(3, 2, 2), (2, 2, 2), (1, 2, 0), (3, 0, 0), (3, 3, 3)]
)
def test_log_start_follows_leader_up_to_watermark(harness, watermark, leader_start, start):
    """P13: nothing above the watermark is deleted, because it may be needed; nor does the leader delete there."""
    held = follow_with(harness, 0, 0, 0)
    held.open_follower().take_watermark(watermark, leader_start)
    assert held.log.log_start_offset == start


def drop_deleted(held, leader_start):
    for _ in held.open_follower().drop_deleted(leader_start):
        pass


@pytest.mark.parametrize(("watermark", "known"), [(1, set()), (2, {7})])
def test_deleted_records_leave_only_committed_producers(harness, watermark, known):
    """P5: local records may be of another history. As leader, the replica would report a batch that never existed."""
    held = follow(harness)
    held.open_follower().append(batch(b"x", b"y", producer_id=7, producer_epoch=0, base_sequence=0))
    harness.flush()
    held.saved_watermark = watermark
    drop_deleted(held, 2)
    held.open_follower().take_watermark(2, 2)
    drop_deleted(held, 2)
    assert {producer for producer, _ in held.log.producers.entries()} == known
    assert held.log.log_start_offset == held.log.log_end_offset == 2


@pytest.mark.parametrize(("watermark", "left"), [(1, 0), (2, 2)])
def test_crash_restores_only_committed_deleted_records(harness, watermark, left):
    """P3: the new start is only in memory until the next checkpoint."""
    held = follow(harness)
    held.open_follower().append(batch(b"x", b"y"))
    harness.flush()
    held.saved_watermark = watermark
    drop_deleted(held, 2)
    harness.flush()
    log = PartitionLog.open(
        held.log.directory, LogConfig(), LastRun(clean_shutdown=False), now_ms=0
    )
    assert log.log_end_offset - log.log_start_offset == left
    log.close(clean=False)


@pytest.mark.parametrize(
    ("watermark", "leader_start", "below", "files"),
    [(0, 1, False, False), (0, 2, True, True), (2, 2, True, False), (1, 3, True, True)],
)
def test_only_records_below_leaders_start_are_dropped(
    harness, watermark, leader_start, below, files
):
    held = follow(harness)
    held.open_follower().append(batch(b"x", b"y"))
    held.saved_watermark = watermark
    follower = held.open_follower()
    assert (follower.lies_below(leader_start), follower.drops_files(leader_start)) == (below, files)
    drop_deleted(held, leader_start)
    assert held.log.log_start_offset == (2 if below else 0)


def test_follower_ending_during_deletion_leaves_the_log(harness, monkeypatch):
    """The next epoch decides about the log; this epoch's remaining steps must not empty it."""
    held = follow(harness)
    follower = held.open_follower()
    follower.append(batch(b"x", b"y"))
    harness.flush()
    held.saved_watermark = 1
    monkeypatch.setattr(type(follower), "cut_segments_above", lambda _self, _offset: iter([None]))
    steps = follower.drop_deleted(2)
    next(steps)
    follow(harness, 6)
    assert follower.ended
    assert list(steps) == []
    assert (held.log.log_start_offset, held.log.log_end_offset) == (0, 2)


def test_log_start_does_not_go_back(harness):
    held = follow_with(harness, 0, 0, 0)
    held.open_follower().take_watermark(3, 2)
    held.open_follower().take_watermark(3, 1)
    assert held.log.log_start_offset == 2


# -- where the log is truncated


@pytest.mark.parametrize(
    ("epochs", "leader_epoch", "leader_end", "kept"),
    [
        # the leader has our epoch, with fewer records
        ((0, 0, 2, 2), 2, 3, 3),
        ((0, 0, 2, 2), 2, 2, 2),
        # the leader's epoch ends beyond our log's end
        ((0, 0, 2, 2), 2, 9, 4),
        # both have the leader's largest epoch that is not above ours
        ((0, 0, 2, 2), 0, 2, 2),
        ((0, 0, 2, 2), 0, 1, 1),
        ((0, 0, 2, 2), 0, 5, 2),
        # that epoch is unknown here: the log is cut to our preceding epoch, and the follower fetches again
        ((0, 0, 2, 2), 1, 3, 2),
        ((0, 0, 2, 2), 1, 1, 2),
        # that epoch precedes all of ours: no record of this log is the leader's
        ((3, 3), 1, 1, 0),
        ((3, 3), 1, 0, 0),
        ((3, 3), 1, 5, 0),
        # the leader has no epoch
        ((0, 0), -1, 1, 1),
        ((0, 0), -1, 5, 2),
    ],
)
def test_log_is_truncated_where_epochs_diverge(harness, epochs, leader_epoch, leader_end, kept):
    """KIP-101, KIP-279."""
    follower = follow_with(harness, *epochs).open_follower()
    follower.truncate_diverging(leader_epoch, leader_end)
    assert follower.log.log_end_offset == kept


def test_empty_epoch_is_removed_though_leader_continues(harness):
    """Epoch 7 began at the log's end and has no records. If it were kept, the follower would report it again."""
    follower = follow_with(harness, 0, 0).open_follower()
    follower.log.begin_epoch(7)
    follower.truncate_diverging(-1, 5)
    assert where(follower) == (2, 0, 0)


@pytest.mark.parametrize(("offset", "watermark"), [(1, 1), (2, 2), (3, 2)])
def test_truncation_lowers_the_watermark(harness, offset, watermark):
    held = follow_with(harness, 0, 0, 0)
    held.open_follower().take_watermark(2, 0)
    held.open_follower().truncate_to(offset)
    assert (held.log.log_end_offset, held.high_watermark) == (offset, watermark)


def test_discarded_log_begins_at_leaders_start(harness):
    held = follow_with(harness, 0, 0)
    held.open_follower().start_at(7)
    assert (held.log.log_start_offset, held.log.log_end_offset) == (7, 7)
    assert held.high_watermark == 7
    harness.flush()
    assert where(held.open_follower()) == (7, -1, 7)


def test_truncated_log_is_durable_before_next_fetch(harness):
    held = follow_with(harness, 0, 0)
    follower = held.open_follower()
    heard = []
    follower.on_ready = heard.append
    follower.append(record(2, epoch=9))
    follower.append(record(3, epoch=9))
    assert not follower.ready
    follower.truncate_to(3)
    harness.flush()
    assert follower.ready
    assert where(follower) == (3, 9, 0)


@pytest.mark.parametrize("cut", ["truncate_to", "start_at"])
def test_log_emptied_after_restart_is_flushed(tmp_path, cut):
    """No flush of this process has made the name of its directory durable yet."""
    before = open_harness(tmp_path, 12)
    follow(before).open_follower().start_at(5)
    before.flush()
    before.partitions.close()
    before.directories.close(broker_epoch=1, high_watermarks={})
    harness = open_harness(tmp_path, 12)
    follower = follow(harness, 1).open_follower()
    assert follower.log.log_start_offset == 5
    assert follower.ready
    getattr(follower, cut)(3)
    assert (follower.log.log_end_offset, follower.ready) == (3, False)
    harness.flush()
    assert follower.ready
