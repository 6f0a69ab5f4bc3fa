"""Conversion of a whole response for an old consumer: each partition from its own offset, in its own format."""

from __future__ import annotations

import pytest

from tests.broker.batches import append
from tests.cluster.data_side import open_harness, partition, topic
from trimaran.broker.fetching import old_formats
from trimaran.broker.fetching.old_formats import down_converted, stored_bytes
from trimaran.log.codecs.compression import Compression
from trimaran.log.segments.slices import LogSlice
from trimaran.node.runtime.threads import HEAVY_SECONDS
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

OFFSETS = {"t": (0, 1), "u": (2, 1)}


@pytest.fixture
def harness(tmp_path):
    harness = open_harness(tmp_path)
    harness.set_image(*(topic(name, partition(), partition()) for name in OFFSETS))
    return harness


def stored(harness, **fields):
    """A response with three records of each partition, as the log has them."""
    topics = []
    for name in OFFSETS:
        found = []
        for index in (0, 1):
            append(harness, b"a", b"b", b"c", name=name, index=index, **fields)
            log = harness.leader(name, index).log
            piece = log.read(0, 1 << 20, upto_offset=3, min_one=True)
            found.append(PartitionData(partition_index=index, high_watermark=9, records=piece))
        topics.append(FetchableTopicResponse(topic=name, partitions=found))
    return FetchResponse(responses=topics)


def request():
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        topics=[
            FetchTopic(
                topic=name,
                partitions=[
                    FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1)
                    for index, offset in enumerate(offsets)
                ],
            )
            for name, offsets in OFFSETS.items()
        ],
    )


def each_partition(response):
    return [data for topic in response.responses for data in topic.partitions]


def messages_of(records):
    """Pairs of offset and format in a message set."""
    found, start = [], 0
    while start < len(records):
        offset, size = (
            int.from_bytes(records[start + a : start + b]) for a, b in ((0, 8), (8, 12))
        )
        found.append((offset, records[start + 16]))
        start += 12 + size
    return found


@pytest.mark.parametrize(("version", "magic"), [(0, 0), (1, 0), (2, 1), (3, 1)])
async def test_each_partition_is_converted_from_its_offset(harness, version, magic):
    response = stored(harness)
    await down_converted(response, request(), version, 7)
    wanted = [offset for offsets in OFFSETS.values() for offset in offsets]
    assert [messages_of(data.records) for data in each_partition(response)] == [
        [(offset, magic) for offset in range(first, 3)] for first in wanted
    ]
    codes = [(data.error_code, data.high_watermark) for data in each_partition(response)]
    assert codes == [(ErrorCode.NONE, 9)] * 4


async def test_only_batches_of_the_log_are_converted(harness):
    response = stored(harness)
    first, second, *rest = each_partition(response)
    first.records, second.records = b"", None
    assert stored_bytes(response) == sum(data.records.size for data in rest)
    await down_converted(response, request(), 3, 7)
    assert (first.records, second.records) == (b"", None)
    assert stored_bytes(response) == 0


async def test_conversion_is_heavy_work_of_its_connection(harness, monkeypatch):
    asked = []

    async def run(work, piece, magic, offset, *, whom, seconds):
        asked.append((piece, magic, offset, whom, seconds))
        return work(piece, magic, offset)

    monkeypatch.setattr(old_formats, "run_computing", run)
    response = stored(harness)
    pieces = [data.records for data in each_partition(response)]
    await down_converted(response, request(), 2, 7)
    assert asked == [
        (piece, 1, offset, 7, HEAVY_SECONDS)
        for piece, offset in zip(pieces, (0, 1, 2, 1), strict=True)
    ]


async def test_failed_conversion_is_partitions_own_error(harness):
    response = stored(harness, compression=Compression.ZSTD)
    await down_converted(response, request(), 3, 7)
    assert [
        (data.error_code, data.high_watermark, data.records) for data in each_partition(response)
    ] == [(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, -1, b"")] * 4


async def test_unreadable_log_is_a_storage_error(harness, monkeypatch):
    def read(_piece):
        raise OSError("a bad sector")

    response = stored(harness)
    monkeypatch.setattr(LogSlice, "read", read)
    await down_converted(response, request(), 3, 7)
    assert {data.error_code for data in each_partition(response)} == {ErrorCode.KAFKA_STORAGE_ERROR}
