"""Responses to read_committed readers, and the markers that end transactions: Fetch, ListOffsets, WriteTxnMarkers."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from tests.broker.batches import batch
from tests.broker.calls import call, finished, started, through_wire
from tests.cluster.data_side import open_harness, partition, registration, topic, topic_id
from trimaran.broker.handlers.fetch import fetch
from trimaran.broker.handlers.list_offsets import list_offsets
from trimaran.broker.handlers.write_txn_markers import write_txn_markers
from trimaran.broker.partitions.isr import FetchClock
from trimaran.log.batches.batch import iter_batches
from trimaran.log.producers.marker import EndMarker, build_end_marker
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from trimaran.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from trimaran.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

COMMITTED = 1


@pytest.fixture
def harness(tmp_path):
    harness = open_harness(tmp_path)
    harness.set_image(topic("t", partition()))
    return harness


def write(harness, producer, sequence=0, *, epoch=0, values=(b"v",)):
    """Appends without the Produce handler and its coordinator."""
    data = batch(
        *values,
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=producer >= 0,
    )
    harness.leader().append(data, list(iter_batches(data)))


async def mark(harness, producer, *, commit, epoch=0, coordinator_epoch=0, version=2, txn=0):
    message = WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=producer,
                producer_epoch=epoch,
                transaction_result=commit,
                topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0])],
                coordinator_epoch=coordinator_epoch,
                transaction_version=txn,
            )
        ]
    )
    request = through_wire(message, version)
    answers = []

    async def ask():
        answers.append(
            await finished(
                write_txn_markers(request, harness.contexts.transactions, call(request, version))
            )
        )

    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await trio.testing.wait_all_tasks_blocked()
            harness.flush()
    return answers[0].markers[0].topics[0].partitions[0].error_code


def fetch_request(offset, *, isolation=COMMITTED, max_wait_ms=0, max_bytes=1 << 20):
    message = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        isolation_level=isolation,
        session_epoch=-1,
        topics=[
            FetchTopic(
                topic_id=topic_id("t"),
                partitions=[
                    FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
                ],
            )
        ],
    )
    return through_wire(message, 17)


async def read(harness, offset, **options):
    request = fetch_request(offset, **options)
    response = await finished(fetch(request, harness.contexts.data, call(request, 17)))
    return response.responses[0].partitions[0]


def offsets(answer):
    if not answer.records:
        return []
    return [view.base_offset for view in iter_batches(answer.records.read())]


def aborted(answer):
    return [(entry.producer_id, entry.first_offset) for entry in answer.aborted_transactions]


async def test_read_committed_stops_at_first_open_transaction(harness):
    write(harness, -1)
    write(harness, 7)
    write(harness, -1)
    harness.flush()
    answer = await read(harness, 0)
    assert (offsets(answer), answer.high_watermark, answer.last_stable_offset) == ([0], 3, 1)
    assert offsets(await read(harness, 1)) == []
    uncommitted = await read(harness, 0, isolation=0)
    assert (offsets(uncommitted), uncommitted.last_stable_offset) == ([0, 1, 2], 1)
    assert uncommitted.aborted_transactions is None
    assert await mark(harness, 7, commit=True) == ErrorCode.NONE
    answer = await read(harness, 0)
    assert (offsets(answer), aborted(answer), answer.last_stable_offset) == ([0, 1, 2, 3], [], 4)


async def test_aborted_transactions_come_with_the_records_they_touch(harness):
    for producer in (1, 2):
        write(harness, producer)
    assert await mark(harness, 1, commit=False) == ErrorCode.NONE
    assert await mark(harness, 2, commit=False) == ErrorCode.NONE
    write(harness, -1)
    harness.flush()
    assert aborted(await read(harness, 0)) == [(1, 0), (2, 1)]
    assert aborted(await read(harness, 3)) == [(2, 1)]
    assert aborted(await read(harness, 4)) == []
    first = await read(harness, 0, max_bytes=1)
    assert (offsets(first), (1, 0) in aborted(first)) == ([0], True)


async def test_waiting_reader_learns_of_aborts(harness):
    """KAFKA-5376."""
    write(harness, 1)
    harness.flush()
    request = fetch_request(0, max_wait_ms=5000)
    deferred = fetch(request, harness.contexts.data, call(request, 17))
    answers = []

    async def wait():
        answers.append(await finished(deferred))

    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            assert not answers
            assert await mark(harness, 1, commit=False) == ErrorCode.NONE
    answer = answers[0].responses[0].partitions[0]
    assert (offsets(answer), aborted(answer)) == ([0, 1], [(1, 0)])


def latest(harness, isolation):
    message = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation,
        topics=[
            ListOffsetsTopic(
                name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)]
            )
        ],
    )
    request = through_wire(message, 11)
    answer = started(list_offsets(request, harness.contexts.data, call(request, 11)))
    return answer.topics[0].partitions[0].offset


async def test_latest_offset_depends_on_isolation_level(harness):
    write(harness, -1)
    write(harness, 7)
    harness.flush()
    assert (latest(harness, 0), latest(harness, COMMITTED)) == (2, 1)
    await mark(harness, 7, commit=True)
    assert (latest(harness, 0), latest(harness, COMMITTED)) == (3, 3)


def replicated_upto(harness, offset):
    """Returns a leader whose in-sync follower has everything below `offset`, which is also durable on the leader."""
    harness.flush()
    harness.leader().record_fetch(12, offset, 0, 112, FetchClock())
    assert harness.leader().high_watermark.offset == offset


async def test_read_committed_sees_nothing_above_watermark(harness):
    """T3: records that are not on every in-sync replica may be lost after a fail-over, with or without transactions."""
    harness.set_image(topic("t", partition((11, 12))), brokers=(registration(11), registration(12)))
    for _ in range(3):
        write(harness, -1)
    replicated_upto(harness, 1)
    answer = await read(harness, 0)
    assert (offsets(answer), answer.high_watermark, answer.last_stable_offset) == ([0], 1, 1)
    assert offsets(await read(harness, 1)) == []
    assert latest(harness, COMMITTED) == 1


async def test_transaction_ending_above_watermark_is_open(harness):
    harness.set_image(topic("t", partition((11, 12))), brokers=(registration(11), registration(12)))
    write(harness, 7)
    marker = EndMarker(is_commit=True, coordinator_epoch=0)
    data = memoryview(build_end_marker(marker, producer_id=7, producer_epoch=0, timestamp_ms=1))
    harness.leader().append(data, list(iter_batches(data)))
    replicated_upto(harness, 1)
    answer = await read(harness, 0)
    assert (offsets(answer), answer.last_stable_offset, latest(harness, COMMITTED)) == ([], 0, 0)
    replicated_upto(harness, 2)
    answer = await read(harness, 0)
    assert (offsets(answer), answer.last_stable_offset) == ([0, 1], 2)
