"""DeleteRecords: the permitted topics, and the upper bound."""

import pytest
import trio
import trio.testing
from immutables import Map

from tests.broker.batches import append
from tests.broker.calls import call, finished, through_wire
from tests.cluster.data_side import open_harness, partition, registration, topic
from trimaran.broker.handlers.delete_records import delete_records
from trimaran.quorum.metadata.image import TOPIC_RESOURCE
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)

VERSION = 2


async def ask(harness, name, offset, timeout_ms=1000):
    one = DeleteRecordsPartition(partition_index=0, offset=offset)
    message = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=name, partitions=[one])], timeout_ms=timeout_ms
    )
    request = through_wire(message, VERSION)
    response = await finished(
        delete_records(request, harness.contexts.data, call(request, VERSION))
    )
    found = response.topics[0].partitions[0]
    return ErrorCode.of(found.error_code), found.low_watermark


def with_records(tmp_path, name="t", **configs):
    harness = open_harness(tmp_path)
    overrides = {key.replace("_", "."): value for key, value in configs.items()}
    harness.set_image(topic(name, partition()), configs={(TOPIC_RESOURCE, name): Map(overrides)})
    append(harness, b"a", b"b", b"c", name=name)
    harness.flush()
    return harness


@pytest.mark.parametrize(
    ("offset", "answer"),
    [
        (2, (ErrorCode.NONE, 2)),
        (-1, (ErrorCode.NONE, 3)),
        (4, (ErrorCode.OFFSET_OUT_OF_RANGE, -1)),
        (-2, (ErrorCode.OFFSET_OUT_OF_RANGE, -1)),
    ],
)
async def test_records_are_deleted_up_to_the_watermark(tmp_path, offset, answer):
    assert await ask(with_records(tmp_path), "t", offset) == answer


@pytest.mark.parametrize("timeout_ms", [1000, 0, -1, -(1 << 31)])
async def test_deletion_waits_for_live_followers(tmp_path, autojump_clock, timeout_ms):
    """The records are deleted here; the client learns that a follower has not followed."""
    harness = with_records(tmp_path)
    state = partition((11, 12), isr=(11,), partition_epoch=1)
    harness.set_image(topic("t", state), brokers=(registration(11), registration(12)))
    began = trio.current_time()
    assert await ask(harness, "t", 2, timeout_ms) == (ErrorCode.REQUEST_TIMED_OUT, -1)
    assert trio.current_time() - began == max(0, timeout_ms) / 1000
    assert harness.leader("t").log.log_start_offset == 2


@pytest.mark.parametrize(
    ("policy", "code"),
    [
        ("compact", ErrorCode.POLICY_VIOLATION),
        ("compact,delete", ErrorCode.NONE),
        ("", ErrorCode.NONE),
    ],
)
async def test_deletion_depends_on_cleanup_policy(tmp_path, policy, code):
    harness = with_records(tmp_path, cleanup_policy=policy)
    assert (await ask(harness, "t", 1))[0] is code


async def test_records_of_internal_topics_are_not_deleted(tmp_path):
    harness = with_records(tmp_path, "__consumer_offsets", cleanup_policy="compact,delete")
    answer = await ask(harness, "__consumer_offsets", 1)
    assert answer == (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)
    assert harness.leader("__consumer_offsets").log.log_start_offset == 0


async def test_missing_topic_is_unknown(tmp_path):
    assert await ask(open_harness(tmp_path), "t", 1) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)


async def after_the_flush(harness, offset):
    """Returns the response to a request that arrived during the flush."""
    answers = []

    async def ask_now():
        answers.append(await ask(harness, "t", offset))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask_now)
        await trio.testing.wait_all_tasks_blocked()
        assert not answers, "what is visible is on disk"
        harness.flush()
    return answers[0]


@pytest.mark.parametrize("offset", [4, -1])
async def test_acks_1_records_are_deletable_after_flush(tmp_path, offset):
    harness = with_records(tmp_path)
    append(harness, b"d")
    assert await after_the_flush(harness, offset) == (ErrorCode.NONE, 4)


async def test_offset_beyond_flushed_end_is_refused(tmp_path):
    harness = with_records(tmp_path)
    append(harness, b"d")
    assert await after_the_flush(harness, 5) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)


@pytest.mark.parametrize(("offset", "answer"), [(3, 3), (1, 1), (0, 0)])
async def test_flushed_records_are_deleted_without_waiting(tmp_path, offset, answer):
    harness = with_records(tmp_path)
    append(harness, b"d")
    assert await ask(harness, "t", offset) == (ErrorCode.NONE, answer)


async def test_stuck_disk_times_out(tmp_path, autojump_clock):
    harness = with_records(tmp_path)
    append(harness, b"d")
    assert await ask(harness, "t", -1) == (ErrorCode.REQUEST_TIMED_OUT, -1)
