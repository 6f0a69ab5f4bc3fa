"""Fetch: offsets, limits, long polls, epochs, and the right to fetch as a follower (reliability 4.4)."""

from __future__ import annotations

import gc
import shutil

import pytest
import trio
import trio.testing

from tests.broker.batches import append
from tests.broker.calls import Paused, call, finished, started, through_wire
from tests.cluster.data_side import open_harness, partition, registration, topic, topic_id
from trimaran.broker.fetching.slots import Slot
from trimaran.broker.handlers.fetch import fetch
from trimaran.broker.partitions.isr import FetchClock
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState


@pytest.fixture
def harness(tmp_path):
    harness = open_harness(tmp_path)
    harness.set_image(topic("t", partition(), partition()))
    return harness


def fetch_request(offset, *, replica_id=-1, **fields):
    state = ReplicaState(replica_id=replica_id, replica_epoch=fields.pop("replica_epoch", -1))
    message = FetchRequest(
        replica_state=state,
        max_wait_ms=fields.pop("max_wait_ms", 0),
        min_bytes=fields.pop("min_bytes", 1),
        max_bytes=fields.pop("max_bytes", 1 << 20),
        session_epoch=-1,
        topics=[
            FetchTopic(
                topic_id=topic_id("t"),
                partitions=[
                    FetchPartition(
                        partition=0, fetch_offset=offset, partition_max_bytes=1 << 20, **fields
                    )
                ],
            )
        ],
    )
    return through_wire(message, 17)


def start_fetch(harness, message):
    return started(fetch(message, harness.contexts.data, call(message, 17)))


async def read(harness, offset, **fields):
    response = await finished(start_fetch(harness, fetch_request(offset, **fields)))
    return response.responses[0].partitions[0]


@pytest.mark.parametrize("offset", [-1, 2, 1 << 62])
async def test_offset_outside_of_log_is_refused(harness, offset):
    """mA1."""
    append(harness, b"a")
    harness.flush()
    assert (await read(harness, offset)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


async def test_consumers_see_nothing_above_the_watermark(harness):
    append(harness, b"a")
    answer = await read(harness, 0)
    assert (answer.error_code, answer.records.size if answer.records else 0) == (0, 0)
    harness.flush()
    answer = await read(harness, 0)
    assert answer.records.size > 0
    assert (answer.high_watermark, answer.last_stable_offset) == (1, 1)


async def test_batch_larger_than_limits_is_returned_alone(harness):
    """KIP-74: the first batch of the first partition that has one is always returned."""
    append(harness, b"x" * 5000)
    append(harness, b"y")
    harness.flush()
    answer = await read(harness, 0, max_bytes=1)
    assert 5000 < answer.records.size < 5200


@pytest.mark.parametrize(
    ("epoch", "code"),
    [(4, ErrorCode.FENCED_LEADER_EPOCH), (6, ErrorCode.UNKNOWN_LEADER_EPOCH), (5, 0)],
)
async def test_leader_epochs_are_fenced(harness, epoch, code):
    """mA3."""
    harness.set_image(topic("t", partition(leader_epoch=5)))
    assert (await read(harness, 0, current_leader_epoch=epoch)).error_code == code


async def test_long_poll_ends_with_data(harness):
    deferred = start_fetch(harness, fetch_request(0, max_wait_ms=60_000))
    assert isinstance(deferred, Paused)
    async with trio.open_nursery() as nursery:
        answers = []

        async def wait():
            answers.append(await deferred.finish())

        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        append(harness, b"a")
        await trio.testing.wait_all_tasks_blocked()
        assert not answers, "not committed yet"
        harness.flush()
        with trio.fail_after(5):
            while not answers:
                await trio.lowlevel.checkpoint()
    assert answers[0].responses[0].partitions[0].records.size > 0
    watchers = harness.leader().replica.watchers
    assert not watchers._upto_watermark, "nothing stays behind"


async def test_long_poll_ends_after_max_wait(harness):
    with trio.fail_after(5):
        answer = await read(harness, 0, max_wait_ms=20)
    assert answer.error_code == 0


async def test_long_poll_waits_for_min_bytes(harness):
    append(harness, b"a")
    harness.flush()
    deferred = start_fetch(harness, fetch_request(0, max_wait_ms=60_000, min_bytes=2000))
    assert isinstance(deferred, Paused)
    append(harness, b"x" * 2000)
    harness.flush()
    with trio.fail_after(5):
        answer = (await deferred.finish()).responses[0].partitions[0]
    assert answer.records.size > 2000


async def test_long_poll_ends_with_the_epoch(harness):
    deferred = start_fetch(harness, fetch_request(0, max_wait_ms=60_000))
    harness.set_image(topic("t", partition((11, 12), leader=12, leader_epoch=1, partition_epoch=1)))
    with trio.fail_after(5):
        answer = (await deferred.finish()).responses[0].partitions[0]
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize(
    ("replica_id", "epoch", "code"),
    [
        (77, 100, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (12, -1, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (11, 111, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (12, 111, ErrorCode.STALE_BROKER_EPOCH),
        (12, 113, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
async def test_false_follower_moves_nothing(harness, replica_id, epoch, code):
    """mA4, CVE-2018-1288: neither the ISR nor the watermark."""
    harness.set_image(
        topic("t", partition((11, 12), isr=(11, 12))),
        brokers=(registration(11), registration(12)),
    )
    append(harness, b"a")
    harness.flush()
    answer = await read(harness, 1, replica_id=replica_id, replica_epoch=epoch)
    assert answer.error_code == code
    leader = harness.leader()
    assert leader.high_watermark.offset == 0
    assert leader.followers[12].end_offset == -1
    assert not harness.isr_changes.submitted


async def test_follower_learns_where_it_diverges(harness):
    harness.set_image(topic("t", partition((11, 12))), brokers=(registration(11), registration(12)))
    append(harness, b"a")
    harness.set_image(topic("t", partition((11, 12), leader_epoch=3, partition_epoch=1)))
    append(harness, b"b")
    answer = await read(
        harness, 5, replica_id=12, replica_epoch=112, last_fetched_epoch=2, current_leader_epoch=3
    )
    assert (answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset) == (0, 1)
    assert harness.leader().followers[12].end_offset == -1, "a diverging fetch proves nothing"


def lead_again(harness):
    """Begins a new epoch with a follower that has not fetched in it yet: the watermark is below the epoch's start."""
    brokers = (registration(11), registration(12))
    harness.set_image(topic("t", partition((11, 12), leader_epoch=3)), brokers=brokers)
    append(harness, b"a")
    harness.flush()
    harness.set_image(topic("t", partition((11, 12), leader_epoch=4, partition_epoch=1)))
    return harness.leader()


async def read_in_version(harness, version, offset):
    message = fetch_request(offset)
    message = message.replace(topics=[message.topics[0].replace(topic="t")])
    response = await finished(fetch(message, harness.contexts.data, call(message, version)))
    return response.responses[0].partitions[0]


async def test_new_leader_reports_no_watermark_too_early(harness):
    """P7: the record may have been committed and read before; a watermark of 0 is never sent."""
    leader = lead_again(harness)
    answer = await read(harness, 0)
    assert (answer.error_code, answer.high_watermark) == (ErrorCode.OFFSET_NOT_AVAILABLE, -1)
    answer = await read_in_version(harness, 10, 0)
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    leader.record_fetch(12, 1, 0, 112, FetchClock())
    answer = await read(harness, 0)
    assert (answer.error_code, answer.high_watermark) == (0, 1)
    assert answer.records.size > 0


async def test_followers_read_new_leaders_records(harness):
    lead_again(harness)
    answer = await read(harness, 0, replica_id=12, replica_epoch=112)
    assert answer.error_code == 0
    assert answer.records.size > 0


async def test_long_poll_outlasts_unknown_watermark(harness, autojump_clock):
    leader = lead_again(harness)
    answers = []

    async def consume():
        answers.append(await read(harness, 0, max_wait_ms=10_000))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(consume)
        await trio.testing.wait_all_tasks_blocked()
        assert answers == []
        leader.record_fetch(12, 1, 0, 112, FetchClock())
    assert (answers[0].error_code, answers[0].high_watermark) == (0, 1)


async def test_unknown_watermark_is_not_reported_after_crash(tmp_path):
    """P7: the checkpoint was never written; the log has the record, which is not flushed yet."""
    before = open_harness(tmp_path / "before")
    before.set_image(topic("t", partition()))
    append(before, b"a")
    before.flush()
    shutil.copytree(tmp_path / "before", tmp_path / "after")
    after = open_harness(tmp_path / "after")
    after.set_image(topic("t", partition()))
    assert (await read(after, 0)).error_code == ErrorCode.OFFSET_NOT_AVAILABLE
    after.flush()
    answer = await read(after, 0)
    assert (answer.error_code, answer.high_watermark) == (0, 1)


async def test_abandoned_large_fetch_leaves_no_cycle(harness):
    """A large request is frozen, and the collector never frees a cycle of frozen objects."""
    wanted = [
        FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1)
        for index in range(3000)
    ]
    topics = [FetchTopic(topic_id=topic_id("t"), partitions=wanted)]
    asked = through_wire(fetch_request(0).replace(topics=topics), 17)
    large = call(asked, 17)

    def slots():
        return sum(type(object_) is Slot for object_ in gc.get_objects())

    gc.collect()
    gc.disable()
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(finished, fetch(asked, harness.contexts.data, large))
            while not slots():
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
        await trio.lowlevel.checkpoint()
        assert not slots()
    finally:
        gc.enable()
