"""A look-up by time blocks the loop for no longer than reading a few headers, whatever producers wrote."""

from dataclasses import replace

import pytest

from tests.broker.calls import call, finished, through_wire
from tests.cluster.data_side import open_harness, partition, topic
from tests.counted_work import Work
from tests.log.helpers import open_log
from trimaran.broker.handlers.list_offsets import list_offsets
from trimaran.log.batches import record_search
from trimaran.log.batches.batch import iter_batches
from trimaran.log.batches.records import NewRecord, Record, build_batch
from trimaran.log.codecs.compression import Compression
from trimaran.log.old_formats.message_sets import V1, build_message_set
from trimaran.log.partitions import timestamps
from trimaran.log.partitions.timestamps import CandidateBatch
from trimaran.log.segments import scan
from trimaran.log.segments.segment import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from trimaran.log.steps import TakesLong
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

MAX_TIMESTAMP = -3


@pytest.fixture
def harness(tmp_path):
    return open_broker(tmp_path)


def open_broker(path):
    harness = open_harness(path)
    harness.set_image(topic("t", partition(leader_epoch=3)))
    return harness


def append(harness, data):
    data = memoryview(bytearray(data))
    harness.leader().append(data, list(iter_batches(data)), acks=1)


def append_segments(harness, batches):
    """Appends small batches to small segments, each a millisecond later."""
    log = harness.leader().log
    log.config = replace(log.config, segment_bytes=4000, index_interval_bytes=300)
    for index in range(batches):
        append(harness, build_batch(records(1, value=bytes(100), time=1000 + index)))
    harness.flush()
    return log.segment_base_offsets


async def ask(harness, timestamp, version=7):
    harness.flush()
    wanted = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    if version == 0:
        wanted.max_num_offsets = 1000
    message = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[wanted])]
    )
    request = through_wire(message, version)
    answer = await finished(list_offsets(request, harness.contexts.data, call(request, version)))
    return answer.topics[0].partitions[0]


async def found(harness, timestamp):
    one = await ask(harness, timestamp)
    return one.error_code or one.offset


def records(count, *, value=b"v", time=1000):
    return [NewRecord(None, value, time + index) for index in range(count)]


@pytest.mark.parametrize("compression", Compression)
async def test_only_large_batch_is_searched_in_thread(harness, monkeypatch, compression):
    value = bytes(20) if compression else bytes(2000)
    append(harness, build_batch(records(10, value=value), compression=compression))
    searched = Work(monkeypatch, CandidateBatch, "find")
    assert await found(harness, 1004) == 4
    assert await found(harness, MAX_TIMESTAMP) == 9
    assert await found(harness, 1010) == -1
    assert (searched.calls, searched.elsewhere) == (2, 2)
    append(harness, build_batch(records(10, time=2000)))
    assert await found(harness, 2003) == 13
    assert searched.elsewhere == 2, "one that is small is searched at once"


def test_old_wrapper_is_searched_in_several_turns(tmp_path):
    log = open_log(tmp_path / "t-0")
    old = build_message_set(
        [Record(index, 1000 + index, None, b"v", ()) for index in range(5)],
        magic=V1,
        compression=Compression.GZIP,
    )
    log.append_as_follower(memoryview(bytes(old)))
    with pytest.raises(TakesLong):
        log.offset_for_timestamp(1003, 100)
    assert log.offset_for_timestamp(1003) == (1003, 3, -1)


async def test_record_beyond_batch_limit_is_refused(harness, monkeypatch):
    """Kafka, which has no such limit, may have written the log."""
    large = build_batch(records(1000, value=bytes(1000)), compression=Compression.GZIP)
    append(harness, large)
    append(harness, build_batch(records(1, time=5000)))
    monkeypatch.setattr(timestamps, "RECORDS_BYTES_MAX", 100_000)
    monkeypatch.setattr(record_search, "PIECE_BYTES", 10_000)
    assert await found(harness, 1050) == 50
    assert await found(harness, 1900) == ErrorCode.MESSAGE_TOO_LARGE
    assert await found(harness, 5000) == 1000


async def test_descending_timestamps_are_searched_in_turns(harness, monkeypatch):
    """The time index has only one entry then, and the batch with the requested time is the last one."""
    batches = [build_batch(records(1, time=time)) for time in (1000, *[10] * 3000, 2000)]
    append(harness, b"".join(batches))
    read = Work(monkeypatch, scan, "header_at")
    assert await found(harness, 1500) == 3001
    assert read.calls > 3000
    assert read.in_longest_step <= 400


async def test_segments_and_lost_indexes_are_processed_in_turns(tmp_path, monkeypatch):
    harness = open_broker(tmp_path)
    assert len(append_segments(harness, 300)) > 10
    harness.directory.close(broker_epoch=1)
    for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
        for path in list(tmp_path.glob(f"t-0/*{suffix}"))[:-1]:
            path.write_bytes(b"damaged! no index")
    harness = open_broker(tmp_path)
    harness.leader()
    read = Work(monkeypatch, scan, "header_at")
    assert await found(harness, 1299) == 299
    assert read.calls > 300
    assert read.in_longest_step <= 200
    assert await found(harness, 1150) == 150
    assert (await ask(harness, 1, version=0)).old_style_offsets == []
    harness.directory.close(broker_epoch=None)


async def test_version_0_segments_are_processed_in_turns(tmp_path, monkeypatch):
    harness = open_broker(tmp_path)
    bases = append_segments(harness, 200)
    looked_at = Work(monkeypatch, timestamps, "_modified_ms")
    assert (await ask(harness, 1000, version=0)).old_style_offsets == []
    assert looked_at.calls >= len(bases) > 6
    assert looked_at.in_longest_step <= 6
    assert (await ask(harness, -1, version=0)).old_style_offsets == [200, *reversed(bases)]


async def test_a_leader_that_is_deposed_meanwhile_answers_nothing(harness, monkeypatch):
    append(harness, build_batch(records(10), compression=Compression.GZIP))
    original = CandidateBatch.find

    def depose(candidate):
        harness.set_image(topic("t", partition((12,), leader=12, leader_epoch=4)))
        return original(candidate)

    monkeypatch.setattr(CandidateBatch, "find", depose)
    assert await found(harness, 1004) == ErrorCode.NOT_LEADER_OR_FOLLOWER
