"""Slow checks run in the thread, and nothing is appended before the whole request is checked."""

import threading

import pytest
import trio
import trio.testing

from tests.broker.batches import batch
from tests.broker.calls import Paused, call, connection, finished, started, through_wire
from tests.broker.partitions.replicas import until
from tests.broker.producing.stages import validate_now
from tests.cluster.data_side import open_harness, partition, topic, topic_id
from trimaran.broker.handlers.produce import produce
from trimaran.broker.producing import validate as validate_stage
from trimaran.broker.producing.partition_append import resolve
from trimaran.log.batches.batch import BatchView, iter_batches
from trimaran.log.batches.records import NewRecord, build_batch, decode_records
from trimaran.log.codecs.compression import Compression
from trimaran.log.validation.validate import BYTES_CHECKED_AT_ONCE_MAX
from trimaran.node.runtime.clock import now_ms
from trimaran.quorum.metadata.image import TOPIC_RESOURCE
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import TopicPartition
from trimaran.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

VERSION = 13


@pytest.fixture
def harness(tmp_path):
    harness = open_harness(tmp_path)
    harness.set_image(topic("t", partition(), partition()))
    return harness


def large(count=1, **fields):
    """Returns records that are small as received, and exceed the budget when decompressed."""
    value = bytes(BYTES_CHECKED_AT_ONCE_MAX)
    records = [NewRecord(b"large", value, now_ms())] + [NewRecord(b"k", b"", now_ms())] * (
        count - 1
    )
    return memoryview(bytearray(build_batch(records, compression=Compression.ZSTD, **fields)))


def request(*records, acks=1):
    data = [PartitionProduceData(index=i, records=record) for i, record in enumerate(records)]
    topics = [TopicProduceData(topic_id=topic_id("t"), partition_data=data)]
    return through_wire(ProduceRequest(acks=acks, timeout_ms=60_000, topic_data=topics), VERSION)


def send(harness, message, peer):
    return started(produce(message, harness.contexts.data, call(message, VERSION, peer)), peer.id)


def keys(harness, index=0):
    log = harness.partitions.leader_of(TopicPartition("t", index)).log
    if not log.log_end_offset:
        return []
    data = log.read_bytes(0, 1 << 30, upto_offset=log.log_end_offset)
    return [record.key for batch in iter_batches(data) for record in decode_records(batch)]


def codes_of(response):
    return [
        partition_response.error_code
        for partition_response in response.responses[0].partition_responses
    ]


async def test_large_batch_is_checked_in_thread_stored_unchanged(harness):
    deferred = send(harness, request(large()), connection())
    assert isinstance(deferred, Paused)
    assert keys(harness) == []
    assert codes_of(await finished(deferred)) == [0]
    assert keys(harness) == [b"large"]


async def test_append_waits_until_whole_request_is_checked(harness):
    message = request(batch(b"small"), large())
    _, appends = started(resolve(message, harness.partitions))
    assert isinstance(validate_now(appends, harness.partitions), Paused)
    assert keys(harness, 0) == []
    assert codes_of(await finished(send(harness, message, connection()))) == [0, 0]
    assert (keys(harness, 0), keys(harness, 1)) == ([None], [b"large"])


async def test_malformed_last_record_of_large_batch_is_found(harness):
    data = large(2)
    view = BatchView(data)
    view.buffer[57:61] = (3).to_bytes(4, "big")
    view.buffer[23:27] = (2).to_bytes(4, "big")
    view.stamp_max_timestamp(view.max_timestamp)
    answer = await finished(send(harness, request(data), connection()))
    assert codes_of(answer) == [ErrorCode.INVALID_RECORD]
    assert keys(harness) == []


async def test_wrong_largest_timestamp_is_corrected(harness):
    time = now_ms()
    data = batch(b"a", timestamp_ms=time)
    BatchView(data).stamp_max_timestamp(time + 1000)
    assert codes_of(send(harness, request(data), connection())) == [0]
    log = harness.partitions.leader_of(TopicPartition("t", 0)).log
    [stored] = iter_batches(log.read_bytes(0, 1 << 20, upto_offset=1))
    assert stored.max_timestamp == time


async def test_zstd_topic_stores_zstd_always(harness):
    overrides = {"compression.type": "zstd", "compression.zstd.level": "7"}
    harness.set_image(topic("t", partition()), configs={(TOPIC_RESOURCE, "t"): overrides})
    deferred = send(harness, request(batch(b"plain")), connection())
    assert isinstance(deferred, Paused), "it is compressed in a thread"
    assert codes_of(await finished(deferred)) == [0]
    log = harness.partitions.leader_of(TopicPartition("t", 0)).log
    [stored] = iter_batches(log.read_bytes(0, 1 << 20, upto_offset=1))
    assert stored.compression is Compression.ZSTD
    assert [record.value for record in decode_records(stored)] == [b"plain"]


async def test_small_batch_waits_for_one_large_only(harness, monkeypatch):
    monkeypatch.setattr(validate_stage, "BYTES_TRIED_MAX", BYTES_CHECKED_AT_ONCE_MAX + 1000)
    harness.set_image(topic("t", *[partition()] * 2))
    crowd, goes_on = 20, threading.Event()
    done, original = [], {name: getattr(validate_stage, name) for name in ("_try", "_check")}

    def recorded(name):
        def run(records, *rest):
            if name == "_check":
                assert goes_on.wait(10)
            found = original[name](records, *rest)
            done.append((name, BatchView(records).count, found is not None))
            return found

        return run

    for name in original:
        monkeypatch.setattr(validate_stage, name, recorded(name))

    async def write(number, count):
        peer = connection()
        peer.id = number
        assert codes_of(await finished(send(harness, request(bomb(count)), peer))) == [0]

    async with trio.open_nursery() as nursery:
        for number in range(crowd):
            nursery.start_soon(write, number, 2)
        await until(lambda: len(done) == crowd)
        nursery.start_soon(write, crowd, 1)
        await trio.testing.wait_all_tasks_blocked()
        goes_on.set()
    assert done[:crowd] == [("_try", 2, False)] * crowd, "how much it is shows then"
    assert done.index(("_try", 1, True)) <= crowd + 1, "behind the one that was under way"
    assert done.count(("_check", 2, True)) == crowd


def bomb(count):
    """Returns this many batches that exceed the loop's budget; the thread tries one."""
    record = NewRecord(b"large", bytes(BYTES_CHECKED_AT_ONCE_MAX), now_ms())
    return memoryview(bytearray(build_batch([record] * count, compression=Compression.ZSTD)))
