"""However many partitions a request names, no step of the loop opens, writes or reads more than a few logs."""

from __future__ import annotations

import threading

import pytest
import trio

from tests.broker.calls import call, finished, through_wire
from tests.cluster.data_side import open_harness, partition, registration, topic, topic_id
from tests.counted_work import Work
from trimaran.broker.fetching.fetch import Fetch
from trimaran.broker.handlers.fetch import fetch
from trimaran.broker.handlers.list_offsets import list_offsets
from trimaran.broker.handlers.offset_for_leader_epoch import offset_for_leader_epoch
from trimaran.broker.handlers.produce import produce
from trimaran.broker.handlers.registry import CONTEXT_OF
from trimaran.broker.producing import validate as validate_stage
from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.log.partitions.partition_log import PartitionLog
from trimaran.log.partitions.readable_log import ReadableLog
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
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

PARTITIONS = 40
BATCH = build_batch([NewRecord(None, b"value", 1000)])


def open_broker(path):
    harness = open_harness(path)
    harness.set_image(topic("t", *[partition()] * PARTITIONS), brokers=(registration(11),))
    return harness


def produce_request(acks=1):
    data = [PartitionProduceData(index=index, records=BATCH) for index in range(PARTITIONS)]
    one = TopicProduceData(name="t", topic_id=topic_id("t"), partition_data=data)
    return ProduceRequest(transactional_id=None, acks=acks, timeout_ms=0, topic_data=[one])


def fetch_request():
    wanted = [
        FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20)
        for index in range(PARTITIONS)
    ]
    one = FetchTopic(topic="t", topic_id=topic_id("t"), partitions=wanted)
    return FetchRequest(
        max_wait_ms=0, min_bytes=1, session_epoch=-1, topics=[one], forgotten_topics_data=[]
    )


def list_offsets_request(timestamp=-2):
    wanted = [
        ListOffsetsPartition(partition_index=index, timestamp=timestamp)
        for index in range(PARTITIONS)
    ]
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=wanted)])


def epochs_request():
    wanted = [
        OffsetForLeaderPartition(partition=index, leader_epoch=0) for index in range(PARTITIONS)
    ]
    return OffsetForLeaderEpochRequest(
        replica_id=-1, topics=[OffsetForLeaderTopic(topic="t", partitions=wanted)]
    )


CASES = {
    "produce": (produce, produce_request, 13),
    "fetch": (fetch, fetch_request, 17),
    "list_offsets": (list_offsets, list_offsets_request, 7),
    "offset_for_leader_epoch": (offset_for_leader_epoch, epochs_request, 4),
}


async def ask(harness, handler, request, version):
    wired = through_wire(request, version)
    answer = await finished(
        handler(wired, CONTEXT_OF[handler](harness.contexts), call(wired, version))
    )
    if handler is fetch:  # the records are slices of files
        return answer
    return type(answer).decode(answer.encode(version), version)


def codes_of(answer):
    topics = getattr(answer, "responses", None) or answer.topics
    return [
        partition.error_code
        for found in topics
        for partition in getattr(found, "partition_responses", None) or found.partitions
    ]


@pytest.mark.parametrize("case", CASES)
async def test_logs_are_opened_a_few_at_a_time(tmp_path, monkeypatch, case):
    handler, request, version = CASES[case]
    harness = open_broker(tmp_path)
    opened = Work(monkeypatch, PartitionLog, "open")
    appended = Work(monkeypatch, PartitionLog, "append_as_leader")
    assert codes_of(await ask(harness, handler, request(), version)) == [0] * PARTITIONS
    assert opened.calls == PARTITIONS
    assert opened.in_longest_step <= 1
    assert appended.in_longest_step <= 1
    assert len(codes_of(await ask(harness, handler, request(), version))) == PARTITIONS
    assert opened.calls == PARTITIONS
    harness.directory.close(broker_epoch=None)


async def test_open_logs_are_processed_in_turns(tmp_path, monkeypatch):
    harness = open_broker(tmp_path)
    await ask(harness, produce, produce_request(), 13)
    harness.flush()
    validated = Work(monkeypatch, validate_stage, "validate_produced")
    appended = Work(monkeypatch, PartitionLog, "append_as_leader")
    searched = Work(monkeypatch, ReadableLog, "look_up_timestamp")
    looked_at = Work(monkeypatch, Fetch, "_read")
    await ask(harness, produce, produce_request(), 13)
    harness.flush()
    await ask(harness, list_offsets, list_offsets_request(timestamp=500), 7)
    answer = await ask(harness, fetch, fetch_request(), 17)
    assert all(
        partition.records.size == 2 * len(BATCH) for partition in answer.responses[0].partitions
    )
    stages = {
        "validated": validated,
        "appended": appended,
        "searched": searched,
        "looked at": looked_at,
    }
    assert {name: stage.calls for name, stage in stages.items()} == dict.fromkeys(
        stages, PARTITIONS
    )
    assert max(stage.in_longest_step for stage in stages.values()) <= 1
    harness.directory.close(broker_epoch=None)


@pytest.mark.parametrize("case", CASES)
async def test_unclean_log_is_checked_in_thread(tmp_path, monkeypatch, case):
    harness = open_broker(tmp_path)
    await ask(harness, produce, produce_request(), 13)
    harness.directory.close(broker_epoch=None)
    harness = open_broker(tmp_path)
    opened = Work(monkeypatch, PartitionLog, "open")
    handler, request, version = CASES[case]
    codes = codes_of(await ask(harness, handler, request(), version))
    known = ErrorCode.OFFSET_NOT_AVAILABLE if case == "fetch" else ErrorCode.NONE
    assert codes == [known] * PARTITIONS
    assert opened.elsewhere == opened.calls == PARTITIONS
    assert harness.leader("t", 7).log.log_end_offset == (2 if case == "produce" else 1)
    harness.directory.close(broker_epoch=None)


async def test_damaged_log_is_checked_once_others_served(tmp_path, monkeypatch):
    harness = open_broker(tmp_path)
    await ask(harness, produce, produce_request(), 13)
    harness.leader("t", 3).log.flush()
    harness.directory.save_checkpoints()
    harness.directory.close(broker_epoch=None)
    log = tmp_path / "t-3" / f"{0:020}.log"
    log.write_bytes(log.read_bytes()[:-1])
    harness = open_broker(tmp_path)
    opened = Work(monkeypatch, PartitionLog, "open")
    for _ in range(2):
        codes = codes_of(await ask(harness, list_offsets, list_offsets_request(), 7))
        assert [index for index, code in enumerate(codes) if code] == [3]
        assert codes[3] == ErrorCode.KAFKA_STORAGE_ERROR
    assert opened.calls == opened.elsewhere == PARTITIONS
    harness.directory.close(broker_epoch=None)


async def test_topic_is_deleted_during_check_of_log(tmp_path, monkeypatch):
    harness = open_broker(tmp_path)
    await ask(harness, produce, produce_request(), 13)
    harness.directory.close(broker_epoch=None)
    harness = open_broker(tmp_path)
    begun, original = threading.Event(), PartitionLog.open.__func__

    def slow(*args, **kwargs):
        begun.set()
        return original(*args, **kwargs)

    monkeypatch.setattr(PartitionLog, "open", classmethod(slow))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, harness, list_offsets, list_offsets_request(), 7)
        await trio.to_thread.run_sync(begun.wait)
        harness.set_image()
    assert harness.directory.offline is None
    assert harness.directory.partitions() == set()
    harness.directory.close(broker_epoch=None)
