"""ListOffsets: special timestamps by version, timestamps, fencing, and a new leader that does not know its
watermark.
"""

from __future__ import annotations

import random

import pytest
import trio

from tests.broker.batches import append, batch
from tests.broker.calls import Paused, answered, call, finished, started, through_wire
from tests.cluster.data_side import (
    open_harness,
    partition,
    registration,
    serving,
    topic,
    topic_id,
)
from trimaran.broker.handlers.list_offsets import list_offsets
from trimaran.broker.handlers.offset_for_leader_epoch import offset_for_leader_epoch
from trimaran.log.batches.batch import iter_batches
from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.log.codecs.compression import Compression
from trimaran.quorum.metadata.image import TOPIC_RESOURCE
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from trimaran.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from trimaran.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from trimaran.wire.transport.client.node_connection import open_node_connection

UNKNOWN = (0, -1, -1, -1)
BASE_MS = 1_700_000_000_000


@pytest.fixture
def harness(tmp_path):
    harness = open_harness(tmp_path)
    harness.set_image(topic("t", partition(leader_epoch=3)))
    return harness


def append_at(harness, *times):
    for time in times:
        data = batch(b"x", timestamp_ms=BASE_MS + time)
        harness.leader().append(data, list(iter_batches(data)), acks=1)


def begin(harness, timestamp, version=11, replica_id=-1, **fields):
    """Returns the response, or `Paused`."""
    message = ListOffsetsRequest(
        replica_id=replica_id,
        topics=[
            ListOffsetsTopic(
                name="t",
                partitions=[ListOffsetsPartition(partition_index=0, timestamp=timestamp, **fields)],
            )
        ],
    )
    request = through_wire(message, version)
    return started(list_offsets(request, harness.contexts.data, call(request, version)))


def offset_in(response):
    found = response.topics[0].partitions[0]
    return found.error_code, found.timestamp, found.offset, found.leader_epoch


def ask(harness, timestamp, version=11, replica_id=-1, **fields):
    """Returns the immediate response."""
    return offset_in(begin(harness, timestamp, version, replica_id, **fields))


def test_special_timestamps_have_their_offsets(harness):
    append_at(harness, 10, 30, 20)
    harness.flush()
    append_at(harness, 40)
    assert ask(harness, -1, replica_id=12) == (0, -1, 4, 3), "followers end at the log's end"
    assert ask(harness, -2) == (0, -1, 0, 3)
    assert ask(harness, -4) == (0, -1, 0, 3)
    assert ask(harness, -5) == UNKNOWN
    assert ask(harness, -6) == UNKNOWN
    harness.flush()
    assert ask(harness, -3) == (0, BASE_MS + 40, 3, 3)


@pytest.mark.parametrize(("timestamp", "since"), [(-3, 7), (-4, 8), (-5, 9), (-6, 11)])
def test_special_timestamps_have_a_first_version(harness, timestamp, since):
    assert ask(harness, timestamp, version=since)[0] == 0
    assert ask(harness, timestamp, version=since - 1)[0] == ErrorCode.UNSUPPORTED_VERSION


def test_unknown_special_timestamp_is_refused(harness):
    assert ask(harness, -7)[0] == ErrorCode.UNSUPPORTED_VERSION


def test_timestamp_finds_first_record_from_then_on(harness):
    append_at(harness, 10, 30, 20, 40)
    harness.flush()
    assert ask(harness, BASE_MS) == (0, BASE_MS + 10, 0, 3)
    assert ask(harness, BASE_MS + 11) == (0, BASE_MS + 30, 1, 3)
    assert ask(harness, BASE_MS + 31) == (0, BASE_MS + 40, 3, 3)
    assert ask(harness, BASE_MS + 41) == UNKNOWN


@pytest.mark.parametrize("codec", Compression)
async def test_timestamp_finds_record_in_unordered_compressed_batches(harness, codec):
    times = random.Random(5).sample(range(0, 2000, 10), 200)
    for batch_of in range(0, 200, 25):
        records = [NewRecord(b"k", b"v" * 20, BASE_MS + t) for t in times[batch_of : batch_of + 25]]
        data = memoryview(bytearray(build_batch(records, compression=codec)))
        harness.leader().append(data, list(iter_batches(data)), acks=1)
    harness.flush()
    for wanted in (-1, 0, 5, 730, 995, 1985, 1990, 1991):
        first = next(((t, place) for place, t in enumerate(times) if t >= wanted), None)
        expected = UNKNOWN if first is None else (0, BASE_MS + first[0], first[1], 3)
        assert offset_in(await finished(begin(harness, BASE_MS + wanted))) == expected
    found = offset_in(await finished(begin(harness, -3)))
    assert found == (0, BASE_MS + max(times), times.index(max(times)), 3)


@pytest.fixture
def lagging(tmp_path):
    """Returns a leader with a follower in the ISR that has not fetched the appended records, and may not for a long
    time.
    """
    harness = open_harness(tmp_path)
    harness.set_image(
        topic("t", partition((11, 12), leader_epoch=3)),
        brokers=(registration(11), registration(12)),
    )
    append_at(harness, 10)
    return harness


@pytest.mark.parametrize("is_flushed", [True, False])
def test_uncommitted_offset_is_not_found(lagging, is_flushed):
    if is_flushed:
        lagging.flush()
    assert ask(lagging, BASE_MS) == UNKNOWN
    assert ask(lagging, -3) == UNKNOWN
    assert ask(lagging, -1) == (0, -1, 0, 3), "consumers end at the watermark"


def test_too_small_isr_is_not_waited_for(tmp_path):
    harness = open_harness(tmp_path)
    harness.set_image(
        topic("t", partition((11, 12), isr=(11,), leader_epoch=3)),
        configs={(TOPIC_RESOURCE, "t"): {"min.insync.replicas": "2"}},
    )
    append_at(harness, 10)
    assert ask(harness, -1) == (0, -1, 0, 3)


# After acks=1 the record is in the log, and is being flushed.


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        (-1, (0, -1, 1, 3)),
        (-3, (0, BASE_MS + 10, 0, 3)),
        (BASE_MS, (0, BASE_MS + 10, 0, 3)),
    ],
)
async def test_acks_1_records_are_found_after_flush(harness, timestamp, expected):
    append_at(harness, 10)
    answer = begin(harness, timestamp)
    assert isinstance(answer, Paused), "what is visible is on disk"
    harness.flush()
    assert offset_in(await answer.finish()) == expected


async def test_steady_producer_does_not_delay_list_offsets(harness):
    append_at(harness, 10)
    answer = begin(harness, -1)
    harness.flush()
    append_at(harness, 20)
    assert offset_in(await answer.finish()) == (0, -1, 1, 3)


async def test_acks_1_records_are_found_in_version_0(harness):
    append_at(harness, 10)
    answer = begin(harness, -1, version=0, max_num_offsets=1)
    harness.flush()
    response = await answer.finish()
    assert response.topics[0].partitions[0].old_style_offsets == [1]


def test_log_start_needs_no_flush(harness):
    append_at(harness, 10)
    assert ask(harness, -2) == (0, -1, 0, 3)
    assert ask(harness, -4) == (0, -1, 0, 3)


@pytest.mark.parametrize(
    ("version", "code"),
    [(5, ErrorCode.OFFSET_NOT_AVAILABLE), (4, ErrorCode.LEADER_NOT_AVAILABLE)],
)
async def test_stuck_disk_times_out(harness, autojump_clock, version, code):
    append_at(harness, 10)
    assert offset_in(await begin(harness, -1, version).finish())[0] == code


async def test_leader_deposed_during_wait_refuses(harness):
    append_at(harness, 10)
    answer = begin(harness, -1)
    harness.set_image(topic("t", partition((11, 12), leader=12, leader_epoch=4)))
    assert offset_in(await answer.finish())[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_acknowledged_acks_1_record_is_found(tmp_path):
    harness = open_harness(tmp_path)
    harness.set_image(topic("t", partition(leader_epoch=3)))
    message = ListOffsetsRequest(
        replica_id=-1,
        topics=[
            ListOffsetsTopic(
                name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)]
            )
        ],
    )
    records = PartitionProduceData(index=0, records=batch(b"x"))
    written = ProduceRequest(
        acks=1,
        timeout_ms=1000,
        topic_data=[TopicProduceData(name="t", topic_id=topic_id("t"), partition_data=[records])],
    )
    seen = []
    with trio.fail_after(30):
        async with serving(harness) as port, open_node_connection("127.0.0.1", port) as node:
            for _ in range(20):
                await node.call(written, timeout=10)
                answer = await node.call(message, timeout=10)
                seen.append(answer.topics[0].partitions[0].offset)
    assert seen == list(range(1, 21))


def test_empty_log_has_no_timestamps(harness):
    assert ask(harness, -1) == (0, -1, 0, 3)
    assert ask(harness, -2)[:3] == (0, -1, 0)
    assert ask(harness, -3) == UNKNOWN
    assert ask(harness, 0) == UNKNOWN


@pytest.mark.parametrize(
    ("epoch", "code"), [(2, ErrorCode.FENCED_LEADER_EPOCH), (4, ErrorCode.UNKNOWN_LEADER_EPOCH)]
)
def test_epochs_are_fenced(harness, epoch, code):
    assert ask(harness, -1, current_leader_epoch=epoch)[0] == code


def test_new_leader_does_not_lower_the_end(harness):
    """KIP-207: it waits until the watermark has reached the start of its epoch."""
    brokers = (registration(11), registration(12))
    harness.set_image(topic("t", partition((11, 12), leader_epoch=3)), brokers=brokers)
    append(harness, b"a")
    harness.flush()
    harness.set_image(topic("t", partition((11, 12), leader_epoch=4, partition_epoch=1)))
    assert ask(harness, -1)[0] == ErrorCode.OFFSET_NOT_AVAILABLE
    assert ask(harness, -1, version=4)[0] == ErrorCode.LEADER_NOT_AVAILABLE
    assert ask(harness, -2)[0] == 0


async def epoch_end(harness, leader_epoch, **fields):
    message = OffsetForLeaderEpochRequest(
        topics=[
            OffsetForLeaderTopic(
                topic="t",
                partitions=[
                    OffsetForLeaderPartition(partition=0, leader_epoch=leader_epoch, **fields)
                ],
            )
        ]
    )
    request = through_wire(message, 4)
    response = await answered(
        offset_for_leader_epoch, request, harness.contexts.data, call(request, 4)
    )
    found = response.topics[0].partitions[0]
    return found.error_code, found.leader_epoch, found.end_offset


async def test_epoch_ends_are_reported_at_log_end(harness):
    """The end is the log's end, as for followers, so that a reader or writer up to there finds all records."""
    append(harness, b"a", b"b")
    harness.set_image(topic("t", partition(leader_epoch=5, partition_epoch=1)))
    append(harness, b"c")
    assert await epoch_end(harness, 3) == (0, 3, 2)
    assert await epoch_end(harness, 4) == (0, 3, 2)
    assert await epoch_end(harness, 5) == (0, 5, 3)
    assert await epoch_end(harness, 6) == (0, -1, -1)
    refused = await epoch_end(harness, 5, current_leader_epoch=3)
    assert refused[0] == ErrorCode.FENCED_LEADER_EPOCH


def test_repeated_partition_is_refused(harness):
    wanted = [ListOffsetsPartition(partition_index=0, timestamp=-1) for _ in range(2)]
    message = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=wanted)]
    )
    request = through_wire(message, 4)
    response = started(list_offsets(request, harness.contexts.data, call(request, 4)))
    found = [partition.error_code for partition in response.topics[0].partitions]
    assert found == [ErrorCode.INVALID_REQUEST] * 2
