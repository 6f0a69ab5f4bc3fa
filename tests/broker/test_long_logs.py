"""However much of a log must be read before it can be used, no step of the loop reads more than a little of it."""

from dataclasses import replace

import pytest
import trio
import trio.testing

from tests.broker.calls import call, finished, through_wire
from tests.broker.partitions.replicas import until
from tests.cluster.data_side import open_harness, partition, topic, topic_id
from tests.counted_work import Work
from trimaran.broker.handlers.fetch import fetch
from trimaran.broker.handlers.produce import produce
from trimaran.broker.handlers.registry import CONTEXT_OF
from trimaran.broker.partitions import replica
from trimaran.broker.partitions.suspect_checks import check_suspects
from trimaran.log.batches.batch import iter_batches
from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.log.producers import snapshots
from trimaran.log.segments import recovery, scan
from trimaran.log.segments import segment as segment_module
from trimaran.log.segments.segment import INDEX_SUFFIX, SNAPSHOT_SUFFIX, TIME_INDEX_SUFFIX
from trimaran.node.runtime import pacing
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from trimaran.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

BATCHES = 500
IN_STEP = 80
BATCH = build_batch([NewRecord(None, b"value", 1000)])


@pytest.fixture(autouse=True)
def little(monkeypatch):
    """Lowers the limits, so that a little data already exceeds them."""
    monkeypatch.setattr(recovery, "READ_AT_ONCE_BYTES", 1000)
    monkeypatch.setattr(replica, "READ_AT_ONCE_BYTES", 1000)
    monkeypatch.setattr(pacing, "HOLD_SECONDS_MAX", 0)


def open_broker(path):
    harness = open_harness(path)
    harness.set_image(topic("t", partition()))
    return harness


def fill(harness, *, rolled=False):
    """Creates a log of many small batches, in one segment or, with a short last one, in two."""
    log = harness.leader().log
    append(harness, BATCHES)
    if rolled:
        log.roll(0)
        append(harness)
    harness.flush()
    return log


def append(harness, batches=1):
    data = memoryview(bytearray(BATCH * batches))
    harness.leader().append(data, list(iter_batches(data)), acks=1)


async def ask(harness, handler, request, version, code=0):
    request = through_wire(request, version)
    response = await finished(
        handler(request, CONTEXT_OF[handler](harness.contexts), call(request, version))
    )
    [answered] = response.responses
    [data] = getattr(answered, "partitions", None) or answered.partition_responses
    assert data.error_code == code
    return data


async def write(harness):
    data = [PartitionProduceData(index=0, records=BATCH)]
    one = TopicProduceData(name="t", topic_id=topic_id("t"), partition_data=data)
    request = ProduceRequest(transactional_id=None, acks=1, timeout_ms=0, topic_data=[one])
    return (await ask(harness, produce, request, 13)).base_offset


def fetch_request(offset, isolation_level=0):
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=100)
    one = FetchTopic(topic="t", topic_id=topic_id("t"), partitions=[wanted])
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        session_epoch=-1,
        topics=[one],
        forgotten_topics_data=[],
        isolation_level=isolation_level,
    )


async def read(harness, offset, isolation_level=0):
    return (await ask(harness, fetch, fetch_request(offset, isolation_level), 17)).records.size


async def test_first_append_after_crash_reads_segment_in_thread(tmp_path, monkeypatch):
    harness = open_broker(tmp_path)
    fill(harness)
    harness.directory.close(broker_epoch=None)
    harness = open_broker(tmp_path)
    looked_at = Work(monkeypatch, scan, "header_at")
    assert await write(harness) == BATCHES
    assert looked_at.elsewhere >= 2 * BATCHES, "for the end of the log, and for the producers"
    assert looked_at.in_longest_step < IN_STEP


@pytest.mark.parametrize("suffix", [INDEX_SUFFIX, TIME_INDEX_SUFFIX])
async def test_missing_index_is_rebuilt_in_thread(tmp_path, monkeypatch, suffix):
    harness = open_broker(tmp_path)
    fill(harness, rolled=True)
    harness.directory.close(broker_epoch=1)
    (tmp_path / "t-0" / f"{0:020}{suffix}").unlink()
    harness = open_broker(tmp_path)
    looked_at = Work(monkeypatch, scan, "header_at")
    assert await read(harness, BATCHES - 3) == len(BATCH)
    assert looked_at.elsewhere >= BATCHES
    assert looked_at.in_longest_step < IN_STEP
    assert (tmp_path / "t-0" / f"{0:020}{suffix}").stat().st_size > 0


async def test_missing_producer_snapshot_is_replaced_in_thread(tmp_path, monkeypatch):
    harness = open_broker(tmp_path)
    _ = fill(harness).producers
    harness.directory.close(broker_epoch=1)
    for path in (tmp_path / "t-0").glob(f"*{SNAPSHOT_SUFFIX}"):
        path.unlink()
    harness = open_broker(tmp_path)
    looked_at = Work(monkeypatch, scan, "header_at")
    assert await write(harness) == BATCHES
    assert looked_at.elsewhere >= BATCHES
    assert looked_at.in_longest_step < IN_STEP


async def test_large_producer_snapshot_is_read_in_thread(tmp_path, monkeypatch):
    harness = open_broker(tmp_path)
    _ = fill(harness).producers
    harness.directory.close(broker_epoch=1)
    monkeypatch.setattr(recovery, "SNAPSHOT_BYTES_AT_ONCE", 5)
    harness = open_broker(tmp_path)
    parsed = Work(monkeypatch, snapshots, "parse_snapshot")
    assert await write(harness) == BATCHES
    assert (parsed.calls, parsed.elsewhere) == (1, 1)


async def test_complete_log_is_opened_at_once(tmp_path, monkeypatch):
    harness = open_broker(tmp_path)
    _ = fill(harness, rolled=True).producers
    harness.directory.close(broker_epoch=1)
    harness = open_broker(tmp_path)
    checked = Work(monkeypatch, replica.Replica, "check")
    assert await write(harness) == BATCHES + 1
    assert checked.calls == 0


@pytest.mark.parametrize("isolation_level", [None, 1])
async def test_forgotten_producers_are_reread_in_turns(tmp_path, monkeypatch, isolation_level):
    """Appends and reads of committed records both trigger it."""
    harness = open_broker(tmp_path)
    fill(harness)._producers.truncate(-1)
    looked_at = Work(monkeypatch, scan, "header_at")
    if isolation_level is None:
        assert await write(harness) == BATCHES
    else:
        assert await read(harness, 0, isolation_level)
    assert looked_at.calls >= BATCHES
    assert looked_at.in_longest_step < IN_STEP


@pytest.mark.parametrize("times", [(2000, 10), (-1, -1)], ids=["descending", "none"])
async def test_sparse_time_index_opens_by_last_headers(tmp_path, monkeypatch, times):
    """Producers choose timestamps, and the index only has an entry for each later timestamp."""
    harness = open_broker(tmp_path)
    log = harness.leader().log
    log.config = replace(log.config, index_interval_bytes=500)
    first, others = (build_batch([NewRecord(None, b"value", time)]) for time in times)
    data = memoryview(bytearray(first + others * BATCHES))
    harness.leader().append(data, list(iter_batches(data)), acks=1)
    _ = log.producers
    harness.flush()
    harness.directory.close(broker_epoch=1)
    harness = open_broker(tmp_path)
    looked_at = Work(monkeypatch, scan, "header_at")
    segment = harness.leader().log.active_segment
    assert looked_at.calls < IN_STEP
    assert segment.next_offset == BATCHES + 1
    assert segment.max_timestamp == times[0]
    assert segment.max_timestamp_offset == 0


@pytest.mark.parametrize("damage", [b"x" * 16, b"\0\0\0\7\0\0\0\7"], ids=["no index", "of another"])
async def test_damaged_index_is_rebuilt_in_turns(tmp_path, monkeypatch, damage):
    harness = open_broker(tmp_path)
    fill(harness, rolled=True)
    harness.directory.close(broker_epoch=1)
    (tmp_path / "t-0" / f"{0:020}{INDEX_SUFFIX}").write_bytes(damage)
    harness = open_broker(tmp_path)
    monkeypatch.setattr(segment_module, "REBUILT_AT_ONCE_BYTES", 1000)
    looked_at = Work(monkeypatch, scan, "header_at")
    await ask(harness, fetch, fetch_request(BATCHES - 3), 17, ErrorCode.KAFKA_STORAGE_ERROR)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(check_suspects, harness.partitions)
        await until(lambda: not harness.leader().log.lacks_index)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert await read(harness, BATCHES - 3) == len(BATCH)
    assert looked_at.calls >= BATCHES
    assert looked_at.in_longest_step < IN_STEP
