"""Waiting for watermarks: each partition gets its outcome."""

from __future__ import annotations

import trio
import trio.testing

from tests.broker.batches import append
from tests.broker.calls import started
from tests.cluster.data_side import open_harness, partition, topic
from trimaran.broker.partitions import watermark_waits
from trimaran.node.runtime.watermark import Watermark
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import TopicPartition


async def test_search_for_flushes_pauses_after_each_partition(tmp_path):
    harness = open_harness(tmp_path)
    harness.set_image(topic("t", *[partition()] * 3))
    for index in range(3):
        append(harness, b"x", index=index)
    assert list(watermark_waits.pending_flushes(harness.partitions, keys(3))) == [None] * 3
    assert [flush.key for flush in flushes_of(harness, keys(3))] == keys(3)


def keys(count):
    return [TopicPartition("t", index) for index in range(count)]


def flushes_of(harness, keys):
    return started(watermark_waits.pending_flushes(harness.partitions, keys))


def lead(tmp_path, count=1, **fields):
    harness = open_harness(tmp_path)
    harness.set_image(topic("t", *[partition(**fields)] * count))
    return harness


async def test_unflushed_records_are_waited_for(tmp_path):
    harness = lead(tmp_path, 3)
    append(harness, b"a", b"b")
    append(harness, b"c", index=1)
    harness.flush()
    append(harness, b"d", index=1)
    [found] = flushes_of(harness, keys(3))
    assert (found.key, found.offset) == (TopicPartition("t", 1), 2)
    assert found.watermark is harness.leader(index=1).high_watermark


async def test_unfetched_records_are_not_waited_for(tmp_path):
    """In Kafka their watermark lags, too."""
    harness = lead(tmp_path, replicas=(11, 12))
    append(harness, b"a")
    assert flushes_of(harness, keys(1)) == []


async def test_wait_ends_when_all_flushes_are_done(tmp_path, autojump_clock):
    harness = lead(tmp_path, 2)
    for index in (0, 1):
        append(harness, b"a", index=index)
    flushes = flushes_of(harness, keys(2))
    late = []

    async def wait():
        late.append(await watermark_waits.wait_for_flushes(flushes, 10.0))

    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        assert late == []
        harness.flush()
    assert late == [set()]
    assert trio.current_time() == began


async def test_only_late_flushes_of_live_epochs_are_named(tmp_path, autojump_clock):
    """A request to the current leader of the remaining partitions gets the answer."""
    harness = lead(tmp_path, 6)
    for index in range(6):
        append(harness, b"a", index=index)
    flushes = flushes_of(harness, keys(6))
    for index in (0, 4):
        harness.partitions.find(TopicPartition("t", index)).release_log()
    for index in (1, 5):
        harness.leader(index=index).high_watermark.advance(1)
    began = trio.current_time()
    assert await watermark_waits.wait_for_flushes(flushes, 10.0) == set(keys(6)[2:4])
    assert trio.current_time() - began == 10.0


class Result:
    error_code = 0


async def test_each_part_of_answer_learns_its_outcome(autojump_clock):
    """This includes the parts after one that times out."""
    marks = done, ended, late, _, done_behind, ended_behind = [Watermark() for _ in range(6)]
    results = [Result() for _ in marks]
    for mark in (done, done_behind):
        mark.advance(5)
    for mark in (ended, ended_behind):
        mark.close()
    late.advance(4)
    parts = zip(marks, results, strict=True)
    began = trio.current_time()
    await watermark_waits.wait_for_all(
        [watermark_waits.WatermarkWait(mark, 5, part) for mark, part in parts], 3.0
    )
    assert [result.error_code for result in results] == [
        ErrorCode.NONE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NONE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ]
    assert trio.current_time() - began == 3.0


async def test_offset_reached_before_epoch_end_counts(autojump_clock):
    mark, result = Watermark(), Result()
    mark.advance(5)
    mark.close()
    await watermark_waits.wait_for_all([watermark_waits.WatermarkWait(mark, 5, result)], 3.0)
    assert result.error_code == 0


async def test_partition_without_local_leader_is_not_awaited(tmp_path):
    harness = open_harness(tmp_path)
    harness.set_image(topic("t", partition((11, 12), leader=12)))
    assert flushes_of(harness, [*keys(1), TopicPartition("elsewhere", 0)]) == []
