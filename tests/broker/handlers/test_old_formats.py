"""Produce v0 to v2 and Fetch v0 to v3: what clients of Kafka 0.8 to 0.10 send and receive; ListOffsets v0."""

from __future__ import annotations

import itertools
import threading

import pytest
import trio

from tests.broker.batches import append, batch
from tests.broker.calls import call, finished, started, through_wire
from tests.cluster.data_side import open_harness, partition, registration, topic
from tests.log.old_formats.test_message_sets import message
from trimaran.broker.handlers.fetch import fetch
from trimaran.broker.handlers.list_offsets import list_offsets
from trimaran.broker.handlers.produce import produce
from trimaran.broker.handlers.registry import broker_registry
from trimaran.log.batches.batch import iter_batches
from trimaran.log.batches.records import NewRecord, Record, build_batch, decode_records
from trimaran.log.codecs.compression import Compression
from trimaran.log.old_formats.down_conversion import OVERFLOW, down_convert
from trimaran.log.old_formats.message_sets import build_message_set, decode_message_set
from trimaran.log.old_formats.up_conversion import convert_produced
from trimaran.wire.errors import CloseConnection, ErrorCode
from trimaran.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from trimaran.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from trimaran.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from trimaran.wire.messages.share_acknowledge import ShareAcknowledgeRequest
from trimaran.wire.messages.share_fetch import ShareFetchRequest
from trimaran.wire.messages.share_group_describe import ShareGroupDescribeRequest
from trimaran.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

PRODUCE_VERSIONS = range(3)
FETCH_VERSIONS = range(4)
NOW_MS = 1_700_000_000_000


@pytest.fixture
def harness(tmp_path):
    harness = open_harness(tmp_path)
    harness.set_image(topic("t", partition(), partition()))
    return harness


def a_set(magic, *values, compression=Compression.NONE, first=0):
    records = [
        Record(first + i, NOW_MS + i if magic else -1, b"k", value, ())
        for i, value in enumerate(values)
    ]
    return build_message_set(records, magic=magic, compression=compression)


def produce_request(version, *records, acks=1):
    data = [PartitionProduceData(index=i, records=each) for i, each in enumerate(records)]
    message = ProduceRequest(
        acks=acks, timeout_ms=1000, topic_data=[TopicProduceData(name="t", partition_data=data)]
    )
    return through_wire(message, version)


async def send(harness, version, *records, **fields):
    request = produce_request(version, *records, **fields)
    response = await finished(produce(request, harness.contexts.data, call(request, version)))
    harness.flush()
    if response is None:
        return None
    answers = type(response).decode(response.encode(version), version)
    return [(p.error_code, p.base_offset) for p in answers.responses[0].partition_responses]


def fetch_request(version, *offsets, max_bytes=1 << 20):
    partitions = [
        FetchPartition(partition=i, fetch_offset=offset, partition_max_bytes=max_bytes)
        for i, offset in enumerate(offsets)
    ]
    message = FetchRequest(
        max_wait_ms=0, min_bytes=1, topics=[FetchTopic(topic="t", partitions=partitions)]
    )
    return through_wire(message, version)


async def answered(harness, version, *offsets, **fields):
    request = fetch_request(version, *offsets, **fields)
    response = await finished(fetch(request, harness.contexts.data, call(request, version)))
    decoded = type(response).decode(memoryview(bytes(response.encode(version))), version)
    return decoded.responses[0].partitions


async def read(harness, version, offset, **fields):
    (data,) = await answered(harness, version, offset, **fields)
    assert data.error_code == 0
    return [(r.offset, r.timestamp_ms, r.value) for r in decode_message_set(data.records or b"")]


def stored(harness, index=0):
    log = harness.leader("t", index).log
    data = log.read_bytes(0, 1 << 20, upto_offset=log.log_end_offset)
    return [record for batch in iter_batches(data) for record in decode_records(batch)]


@pytest.mark.parametrize("codec", [0, 1, 2, 3])
@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
async def test_old_produce_formats_are_stored_as_v2(harness, version, codec):
    magic = 1 if version == 2 else 0
    records = a_set(magic, b"a", b"b", compression=Compression(codec))
    assert await send(harness, version, records) == [(0, 0)]
    assert await send(harness, version, records) == [(0, 2)]
    times = [NOW_MS, NOW_MS + 1] * 2 if magic else [-1] * 4
    assert [(r.offset, r.timestamp_ms, r.value) for r in stored(harness)] == list(
        zip(range(4), times, [b"a", b"b"] * 2, strict=True)
    )


async def test_each_partition_has_its_own_result(harness):
    bad = message(0, 1, 0, None, b"v", NOW_MS, crc=1)
    codes = await send(harness, 2, bad, a_set(1, b"b"))
    assert codes == [(ErrorCode.CORRUPT_MESSAGE, -1), (0, 0)]
    unknown = await send(harness, 2, a_set(1, b"a"), a_set(1, b"b"), a_set(1, b"c"))
    assert unknown == [(0, 0), (0, 1), (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)]


async def test_incomplete_message_is_no_error(harness):
    assert await send(harness, 1, b"", a_set(0, b"a")[:-1]) == [(0, -1), (0, -1)]
    assert harness.leader().log.log_end_offset == 0


async def test_v2_batch_in_old_request_must_be_alone(harness):
    assert await send(harness, 2, bytes(batch(b"a"))) == [(0, 0)]
    assert await send(harness, 2, a_set(1, b"a") + bytes(batch(b"a"))) == [
        (ErrorCode.CORRUPT_MESSAGE, -1)
    ]


async def test_acks_zero_is_unanswered_or_disconnects(harness):
    assert await send(harness, 0, a_set(0, b"a"), acks=0) is None
    assert [r.value for r in stored(harness)] == [b"a"]
    with pytest.raises(CloseConnection):
        await send(harness, 0, b"\0" * 30, acks=0)


async def test_acks_all_waits_for_the_disk(harness):
    request = produce_request(2, a_set(1, b"a"), acks=-1)
    deferred = started(produce(request, harness.contexts.data, call(request, 2)))
    answers = []

    async def answer():
        answers.append(await deferred.finish())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(answer)
        with trio.fail_after(60):
            while not harness.leader().log.log_end_offset:
                await trio.lowlevel.checkpoint()
        assert not answers
        harness.flush()
    assert answers[0].responses[0].partition_responses[0].base_offset == 0


@pytest.mark.parametrize("version", FETCH_VERSIONS)
async def test_old_consumers_get_the_format_of_their_time(harness, version):
    data = bytes(build_batch([NewRecord(b"k", b"v", NOW_MS, [("h", b"x")])]))
    await send(harness, 2, data)
    (answer,) = await answered(harness, version, 0)
    (record,) = decode_message_set(answer.records)
    assert answer.records[16] == version // 2
    assert record == Record(0, NOW_MS if version > 1 else -1, b"k", b"v", ())
    assert (answer.error_code, answer.high_watermark) == (0, 1)


async def test_fetch_inside_batch_begins_at_its_offset(harness):
    append(harness, b"a", b"b", b"c")
    harness.flush()
    for version, offset in itertools.product(FETCH_VERSIONS, range(4)):
        values = [value for _, _, value in await read(harness, version, offset)]
        assert values == [b"a", b"b", b"c"][offset:]


@pytest.mark.parametrize("version", FETCH_VERSIONS)
async def test_oversized_first_batch_is_returned(harness, version):
    append(harness, bytes(1000))
    append(harness, b"b")
    harness.flush()
    (answer,) = await answered(harness, version, 0, max_bytes=500)
    if version < 3:
        assert answer.records == OVERFLOW, "the consumer says that its fetch size is too small"
    else:
        assert [r.offset for r in decode_message_set(answer.records)] == [0]
    assert [o for o, _, _ in await read(harness, version, 1, max_bytes=500)] == [1]


async def test_old_versions_refuse_zstd_and_invalid_positions(harness):
    data = batch(b"v", compression=Compression.ZSTD)
    harness.leader().append(data, list(iter_batches(data)))
    harness.flush()
    for version in FETCH_VERSIONS:
        zstd, outside, absent = await answered(harness, version, 0, 7, 0)
        assert [zstd.error_code, outside.error_code, absent.error_code] == [
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            ErrorCode.OFFSET_OUT_OF_RANGE,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]
        assert (zstd.high_watermark, zstd.records) == (-1, b"")


async def test_failed_disk_is_a_storage_error(harness, monkeypatch):
    append(harness, b"a")
    harness.flush()

    def fails(_piece):
        raise OSError(5, "made to fail")

    monkeypatch.setattr("trimaran.log.segments.slices.LogSlice.read", fails)
    (answer,) = await answered(harness, 2, 0)
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER, "they know no storage error"


async def test_nothing_is_converted_on_the_loop(harness, monkeypatch):
    """B2: converting a set of many messages would block it for a long time."""
    threads = []

    def noted(real):
        def run(*args, **fields):
            threads.append(threading.current_thread())
            return real(*args, **fields)

        return run

    monkeypatch.setattr(
        "trimaran.broker.producing.validate.convert_produced", noted(convert_produced)
    )
    monkeypatch.setattr("trimaran.broker.fetching.old_formats.down_convert", noted(down_convert))
    await send(harness, 2, a_set(1, b"a"))
    await read(harness, 2, 0)
    assert len(threads) == 2
    assert threading.current_thread() not in threads


def test_every_version_of_kafka_3_9_is_served():
    """KRaft brokers of Kafka 3.9 serve each of these requests from version 0 on; 4.0 removed the oldest versions. APIs
    of share groups begin at version 1: version 0 was early access, which Kafka removed.
    """
    later = {ShareGroupHeartbeatRequest, ShareGroupDescribeRequest}
    later |= {ShareFetchRequest, ShareAcknowledgeRequest}
    assert {
        key
        for key, versions in broker_registry(zookeeper_offsets=True).api_versions().items()
        if versions.low
    } == {request.KEY for request in later}


def offsets_before(harness, timestamp, count=10, replica_id=-1):
    wanted = ListOffsetsPartition(partition_index=0, timestamp=timestamp, max_num_offsets=count)
    message = ListOffsetsRequest(
        replica_id=replica_id, topics=[ListOffsetsTopic(name="t", partitions=[wanted])]
    )
    request = through_wire(message, 0)
    response = started(list_offsets(request, harness.contexts.data, call(request, 0)))
    decoded = type(response).decode(response.encode(0), 0)
    answer = decoded.topics[0].partitions[0]
    assert answer.error_code == 0
    return answer.old_style_offsets


async def test_list_offsets_v0_returns_segment_starts(tmp_path):
    harness = open_harness(tmp_path, log_segment_bytes="1048576", log_index_interval_bytes="1000")
    brokers = (registration(11), registration(12))
    harness.set_image(topic("t", partition((11, 12))), brokers=brokers)
    assert offsets_before(harness, -1) == offsets_before(harness, -2) == [0]
    for _ in range(3):
        append(harness, bytes(600_000))
    assert offsets_before(harness, -1, replica_id=1) == [3, 2, 1, 0]
    assert offsets_before(harness, -1) == [0], "nothing above the watermark"
    harness.flush()
    harness.set_image(topic("t", partition((11, 12), isr=(11,), partition_epoch=1)))
    assert offsets_before(harness, -1) == [3, 2, 1, 0]
    assert offsets_before(harness, -1, count=2) == [3, 2]
    assert offsets_before(harness, -1, count=-1) == []
    assert offsets_before(harness, -2) == [0]
    assert offsets_before(harness, 1 << 60) == [3, 2, 1, 0]
    assert offsets_before(harness, 1000) == [], "all were written later"
