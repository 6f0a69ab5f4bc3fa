"""DescribeProducers: the idempotent producers of this broker's replicas, on leaders and followers."""

from __future__ import annotations

import pytest

from tests.broker.calls import call, finished, through_wire
from tests.broker.rooms import NotedRoom
from tests.broker.test_transactions import mark, write
from tests.cluster.data_side import open_harness, partition, topic
from tests.counted_work import Work
from trimaran.broker.handlers import describe_producers as describe
from trimaran.broker.handlers.describe_producers import describe_producers
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import TopicPartition
from trimaran.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from trimaran.wire.transport.memory import room


@pytest.fixture
def harness(tmp_path):
    harness = open_harness(tmp_path)
    harness.set_image(topic("t", partition()))
    return harness


async def producers(harness, topic="t", index=0):
    message = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[index])])
    request = through_wire(message, 0)
    answer = await finished(describe_producers(request, harness.contexts.data, call(request, 0)))
    return through_wire(answer, 0).topics[0].partitions[0]


async def test_producers_and_open_transactions_are_described(harness):
    assert (await producers(harness)).active_producers == []
    write(harness, 7, values=(b"a", b"b"))
    write(harness, 8, epoch=3)
    write(harness, 8, 1, epoch=3)
    assert await mark(harness, 7, commit=True, coordinator_epoch=5) == 0
    found = {
        active_producer.producer_id: active_producer
        for active_producer in (await producers(harness)).active_producers
    }
    assert {
        key: (
            value.producer_epoch,
            value.last_sequence,
            value.coordinator_epoch,
            value.current_txn_start_offset,
        )
        for key, value in found.items()
    } == {7: (0, 1, 5, -1), 8: (3, 1, -1, 2)}
    assert found[8].last_timestamp > 0


async def test_description_creates_no_log(harness):
    found = await producers(harness)
    assert (found.error_code, found.active_producers) == (0, [])
    assert harness.partitions.find(TopicPartition("t", 0)).open_log is None
    assert not [path for path in harness.directory.path.iterdir() if path.is_dir()]


async def test_many_producers_are_described_in_steps(harness, monkeypatch):
    monkeypatch.setattr(room, "STEP_BYTES", 5 * room.ITEM_BYTES)
    monkeypatch.setattr(room, "FIRST_STEP_BYTES", 5 * room.ITEM_BYTES)
    for producer_id in range(23):
        write(harness, producer_id)
    shown = Work(monkeypatch, describe, "_shown")
    found = (await producers(harness)).active_producers
    assert [producer.producer_id for producer in found] == list(range(23))
    assert shown.in_longest_step <= 5


async def test_memory_of_producers_is_announced(harness):
    for producer_id in range(23):
        write(harness, producer_id)
    asked = TopicRequest(name="t", partition_indexes=[0, 1])
    request = through_wire(DescribeProducersRequest(topics=[asked]), 0)
    asked = call(request, 0)
    room = NotedRoom(asked)
    await finished(describe_producers(request, harness.contexts.data, asked))
    assert room.noted == [("expect", 23 * 64), ("item", "active_producers")]


async def test_follower_describes_its_producers_too(harness):
    write(harness, 7)
    harness.set_image(topic("t", partition((11, 12), leader=12, leader_epoch=1)))
    assert [
        active_producer.producer_id
        for active_producer in (await producers(harness)).active_producers
    ] == [7]


@pytest.mark.parametrize(
    ("name", "index", "code"),
    [
        ("t", 1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("nowhere", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("bad name", 0, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("elsewhere", 0, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
async def test_producers_of_missing_partitions_are_refused(harness, name, index, code):
    harness.set_image(topic("t", partition()), topic("elsewhere", partition((12,))))
    found = await producers(harness, name, index)
    assert (found.error_code, found.active_producers) == (code, [])
