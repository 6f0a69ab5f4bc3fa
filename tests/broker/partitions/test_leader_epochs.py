"""Starts of leader epochs, and responses to followers and consumers about them (KIP-101, KIP-279, KIP-320)."""

from __future__ import annotations

import pytest

from tests.broker.batches import append as append_here
from tests.broker.batches import batch
from tests.broker.calls import answered, call
from tests.broker.partitions.replicas import append, brokers, until
from tests.cluster.data_side import open_harness, partition, topic
from trimaran.broker.handlers.offset_for_leader_epoch import offset_for_leader_epoch
from trimaran.log.batches.batch import iter_batches
from trimaran.wire.identity import TopicPartition
from trimaran.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

NOBODY = -1
TIMESTAMP_MS = 1_700_000_000_000  # larger than all records, so that they share a segment


def state(leader, epoch, isr=(11, 12, 13), replicas=(11, 12, 13)):
    return topic(
        "t", partition(replicas, leader, isr=isr, leader_epoch=epoch, partition_epoch=epoch)
    )


def bytes_of(cluster, node_id):
    log = cluster.partition(node_id).log
    return log.read_bytes(0, 1 << 20, upto_offset=log.log_end_offset)


def same(cluster, *node_ids):
    return len({bytes_of(cluster, node_id) for node_id in node_ids}) == 1


async def end_of(harness, leader_epoch):
    request = OffsetForLeaderEpochRequest(
        topics=[
            OffsetForLeaderTopic(
                topic="t",
                partitions=[OffsetForLeaderPartition(partition=0, leader_epoch=leader_epoch)],
            )
        ]
    )
    asked = call(request, 4)
    answers = await answered(offset_for_leader_epoch, request, harness.contexts.data, asked)
    [answer] = answers.topics[0].partitions
    assert answer.error_code == 0
    return answer.leader_epoch, answer.end_offset


async def replicated(cluster, offset):
    for node_id in cluster.harnesses:
        await until(lambda node_id=node_id: cluster.partition(node_id).log.flushed_offset == offset)


# -- an epoch begins with the election


async def test_leader_epoch_begins_at_log_end(tmp_path):
    """KAFKA-7415: it does not begin with its first append. A consumer at the end of an idle partition queries it
    (KIP-320).
    """
    harness = open_harness(tmp_path)
    harness.set_image(state(11, 0))
    append_here(harness, b"a", b"b")
    harness.set_image(state(11, 4))
    assert await end_of(harness, 4) == (4, 2)
    assert await end_of(harness, 3) == (0, 2)
    append_here(harness, b"c")
    assert await end_of(harness, 4) == (4, 3)
    assert await end_of(harness, 3) == (0, 2)


async def test_leader_epoch_begins_in_empty_log(tmp_path):
    harness = open_harness(tmp_path)
    harness.set_image(state(11, 3))
    assert await end_of(harness, 3) == (3, 0)
    harness.set_image(state(11, 5))
    assert await end_of(harness, 5) == (5, 0)
    assert harness.leader().log.epochs.entries() == [(5, 0)]


def test_unused_partition_records_no_epoch(tmp_path):
    harness = open_harness(tmp_path)
    harness.set_image(state(11, 3))
    assert harness.partitions.find(TopicPartition("t", 0)).open_log is None
    assert harness.directory.partitions() == set()


@pytest.mark.parametrize("appended", [False, True])
@pytest.mark.parametrize("clean", [False, True])
async def test_restart_in_same_epoch_keeps_its_beginning(tmp_path, clean, appended):
    harness = open_harness(tmp_path)
    harness.set_image(state(11, 0))
    append_here(harness, b"a", b"b")
    harness.set_image(state(11, 4))
    assert await end_of(harness, 4) == (4, 2)
    if appended:
        append_here(harness, b"c")
    harness.flush()
    harness.partitions.close()
    harness.directory.close(broker_epoch=5 if clean else None)
    again = open_harness(tmp_path)
    again.set_image(state(11, 4))
    assert await end_of(again, 3) == (0, 2)
    assert await end_of(again, 4) == (4, 3 if appended else 2)


@pytest.mark.slow
async def test_follower_with_unseen_epoch_is_cut_and_admitted(tmp_path):
    """KAFKA-7415: 11 dies while 13 is ahead of 12; 12 leads and appends; 13 leads; 12 returns."""
    async with brokers(tmp_path, 11, 12, 13) as cluster:
        cluster.assign(state(11, 0))
        append(cluster[11], b"shared")
        await replicated(cluster, 1)
        cluster[12].set_image(state(NOBODY, 0))
        append(cluster[11], b"ahead")
        append(cluster[11], b"further ahead")
        await until(lambda: cluster.partition(13).log.flushed_offset == 3)
        cluster[12].set_image(state(12, 1, isr=(12,)))
        append(cluster[12], b"alone")
        cluster.assign(state(13, 2, isr=(11, 13)))
        assert cluster[13].leader().epoch == 2
        await until(lambda: same(cluster, 11, 12, 13))
        assert b"alone" not in bytes_of(cluster, 12)
        await until(lambda: cluster[13].isr_changes.submitted)
        _, change = cluster[13].isr_changes.submitted[0]
        assert [member for member, _ in change.new_isr] == [11, 13, 12]


@pytest.mark.slow
@pytest.mark.parametrize("records", [(), (b"a", b"b")])
async def test_former_leader_without_records_follows_again(tmp_path, records):
    """The former leader has noted its epoch at the log's end; no other replica has that epoch."""
    async with brokers(tmp_path, 11, 12, 13) as cluster:
        cluster.assign(state(11, 0))
        for value in records:
            append(cluster[11], value)
        cluster[11].leader()
        await until(lambda: cluster.partition(12).open_log is not None or not records)
        cluster[12].set_image(state(12, 1))
        await until(lambda: len(records) in (0, cluster[12].leader().log.log_end_offset))
        assert cluster[12].leader().log.epochs.latest_epoch == 1
        cluster[11].set_image(state(11, 0))
        append(cluster[11], b"of 0")
        cluster.assign(state(11, 2))
        append(cluster[11], b"of 2")
        await cluster[11].leader().high_watermark.wait_reached(len(records) + 2)
        assert same(cluster, 11, 12, 13)
        logs = [cluster.partition(node_id).log for node_id in (11, 12, 13)]
        assert len({tuple(log.epochs.entries()) for log in logs}) == 1


# -- divergence


def write(log, *epochs):
    """Appends one record per element of `epochs`, written in that epoch."""
    for epoch in epochs:
        data = batch(b"%d at %d" % (epoch, log.log_end_offset), timestamp_ms=TIMESTAMP_MS)
        log.append_as_leader(
            data, list(iter_batches(data)), leader_epoch=epoch, now_ms=TIMESTAMP_MS
        )
    log.flush()


HISTORIES = [
    # KIP-101: each has records that the other lacks
    ((0, 0, 1, 1), (0, 0, 2)),
    ((0, 0, 0, 0), (0, 0, 2)),
    # KIP-279: after fast leader changes the follower steps back one epoch at a time
    ((0, 0, 1, 1, 3), (0, 0, 0, 2, 2, 2, 4)),
    ((0, 1, 3, 5, 7), (0, 2, 4, 6, 8)),
    ((1, 1, 1), (0, 0, 0, 2)),
    ((0, 0, 3), (0, 0, 1, 1, 1, 4)),
    # divergence inside an epoch that the leader knows: it lost the epoch's end, and appended more
    ((0, 1, 1, 1, 1), (0, 1, 1, 3)),
    ((0, 1, 1, 1, 1), (0, 1, 1)),
]


@pytest.mark.slow
@pytest.mark.parametrize(("mine", "theirs"), HISTORIES)
async def test_follower_is_truncated_at_point_of_divergence(tmp_path, mine, theirs):
    async with brokers(tmp_path, 11, 12) as cluster:
        for node_id, epochs in ((11, theirs), (12, mine)):
            cluster[node_id].set_image(state(NOBODY, 8, replicas=(11, 12), isr=(11,)))
            write(cluster.partition(node_id).log, *epochs)
        cluster.assign(state(11, 9, replicas=(11, 12), isr=(11,)))
        append(cluster[11], b"of 9")
        await until(lambda: same(cluster, 11, 12))
        logs = [cluster.partition(node_id).log for node_id in (11, 12)]
        assert logs[0].epochs.entries() == logs[1].epochs.entries()


@pytest.mark.slow
async def test_batch_across_the_cut_is_fetched_again(tmp_path):
    """The leader has only a part of it, followed by other records at the same offsets and epoch."""
    async with brokers(tmp_path, 11, 12) as cluster:
        for node_id, last in ((11, (b"b",)), (12, (b"b", b"lost", b"lost"))):
            cluster[node_id].set_image(state(NOBODY, 8, replicas=(11, 12), isr=(11,)))
            log = cluster.partition(node_id).log
            for values in ((b"a",), last):
                data = batch(*values, timestamp_ms=TIMESTAMP_MS)
                log.append_as_leader(
                    data, list(iter_batches(data)), leader_epoch=1, now_ms=TIMESTAMP_MS
                )
            log.flush()
        cluster.partition(12).saved_watermark = 4
        cluster.assign(state(11, 9, replicas=(11, 12), isr=(11,)))
        append(cluster[11], b"of 9", b"too", b"many")
        await until(lambda: same(cluster, 11, 12))
        assert b"lost" not in bytes_of(cluster, 12)
        logs = [cluster.partition(node_id).log for node_id in (11, 12)]
        assert logs[0].epochs.entries() == logs[1].epochs.entries() == [(1, 0), (9, 2)]


def test_cut_lowers_the_watermark_with_it(tmp_path):
    """If a whole batch is removed, the watermark decreases with it; otherwise the next leader would begin above its
    log.
    """
    harness = open_harness(tmp_path, 12)
    harness.set_image(state(11, 1))
    held = harness.partitions.find(TopicPartition("t", 0))
    follower = held.open_follower()
    for offset, values in ((0, (b"a",)), (1, (b"b", b"c", b"d"))):
        data = batch(*values)
        next(iter_batches(data)).stamp(offset, 1)
        follower.append(data)
    harness.flush()
    follower.take_watermark(4, 0)
    assert held.high_watermark == 4
    follower.truncate_diverging(1, 3)
    assert (follower.log.log_end_offset, held.high_watermark) == (1, 1)


def test_known_committed_offset_survives_ignorant_leader(tmp_path):
    """P7: a new leader learns the watermark from its followers, one of which may lead next."""
    harness = open_harness(tmp_path, 12)
    harness.set_image(state(11, 1))
    held = harness.partitions.find(TopicPartition("t", 0))
    data = batch(b"a", b"b", b"c")
    next(iter_batches(data)).stamp(0, 1)
    held.open_follower().append(data)
    held.open_follower().take_watermark(3, 0)
    harness.set_image(state(13, 2))
    held.open_follower().take_watermark(1, 0)
    assert held.high_watermark == 3
    held.open_follower().take_watermark(7, 0)
    assert held.high_watermark == 3, "there is no more here"


@pytest.mark.slow
async def test_follower_takes_batch_containing_leaders_start(tmp_path):
    """Records were deleted up to the batch's middle; an empty log takes the whole batch, and starts in its
    middle too.
    """
    async with brokers(tmp_path, 11, 12) as cluster:
        cluster.assign(topic("t", partition((11,))))
        for values in ((b"a",), (b"b", b"c", b"d"), (b"e",)):
            info = append(cluster[11], *values)
        await cluster[11].leader().high_watermark.wait_reached(info.last_offset + 1)
        cluster[11].leader().delete_records_before(2)
        cluster.assign(state(11, 1, replicas=(11, 12), isr=(11, 12)))
        await cluster[11].leader().high_watermark.wait_reached(5)
        await until(lambda: cluster.partition(12).log.flushed_offset == 5)
        follower = cluster.partition(12).log
        assert (follower.log_start_offset, follower.log_end_offset) == (2, 5)
        pieces = [
            cluster.partition(node_id).log.read_bytes(2, 1 << 20, upto_offset=5)
            for node_id in (11, 12)
        ]
        assert pieces[0] == pieces[1]
        assert next(iter_batches(pieces[1])).base_offset == 1


def test_batches_already_present_are_skipped(tmp_path):
    """A response may begin with the batch that holds the fetch offset, or arrive twice."""
    harness = open_harness(tmp_path, 12)
    harness.set_image(state(11, 1))
    follower = harness.partitions.find(TopicPartition("t", 0)).open_follower()
    data = b""
    for offset, values in ((0, (b"a", b"b")), (2, (b"c", b"d", b"e")), (5, (b"f",))):
        one = batch(*values, timestamp_ms=TIMESTAMP_MS)
        next(iter_batches(one)).stamp(offset, 1)
        data += bytes(one)
    size = next(iter_batches(data)).size
    assert follower.append(memoryview(data[:size]))
    assert follower.append(memoryview(data))
    assert not follower.append(memoryview(data))
    assert follower.log.read_bytes(0, 1 << 20, upto_offset=6) == data
