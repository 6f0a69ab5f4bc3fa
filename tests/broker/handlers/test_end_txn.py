"""EndTxn: committed records become readable, aborted ones never do, and a repeated request changes nothing."""

from __future__ import annotations

import pytest
import trio

from tests.broker.handlers.broker_client import broker_client
from tests.broker.transactions.wire_producer import SETTINGS, WireProducer, read_committed
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from trimaran.wire.messages.describe_transactions import DescribeTransactionsRequest
from trimaran.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from trimaran.wire.messages.header import decode_response_header, encode_request

E = ErrorCode
ADD_VERSION, END_VERSION = 3, 4


@pytest.mark.parametrize("commit", [True, False])
async def test_version_1_transaction_is_committed_or_aborted(tmp_path, commit):
    async with broker_client(tmp_path, **SETTINGS) as one:
        await one.create("t")
        producer = WireProducer(one)
        await producer.begin()
        assert await producer.add(0) == [E.NONE]
        assert await producer.produce(b"a") == E.NONE
        assert await producer.produce(b"b") == E.NONE
        assert await read_committed(one) == ([], 0)
        assert await producer.end(commit=commit) == E.NONE
        assert await producer.end(commit=commit) == E.NONE
        assert await producer.end(commit=not commit) == E.INVALID_TXN_STATE
        assert await read_committed(one, wait_ms=5000) == ([b"a", b"b"] if commit else [], 3)


@pytest.mark.parametrize("commit", [True, False])
async def test_version_2_transaction_adds_partitions_on_write(tmp_path, commit):
    async with broker_client(tmp_path, **SETTINGS) as one:
        await one.create("t")
        producer = WireProducer(one)
        await producer.begin()
        first = producer.producer
        assert await producer.produce(b"a", version=12) == E.NONE
        assert await producer.end(commit=commit, version=5) == E.NONE
        assert producer.producer == (first.id, first.epoch + 1)
        second, producer.producer = producer.producer, first
        assert await producer.end(commit=commit, version=5) == E.NONE  # the response was lost
        assert producer.producer == second
        assert await producer.produce(b"b", version=12) == E.NONE
        assert await producer.end(version=5) == E.NONE
        expected = [b"a", b"b"] if commit else [b"b"]
        values, stable = [], 0
        while stable < 4:
            values, stable = await read_committed(one, wait_ms=100)
        assert values == expected


@pytest.mark.parametrize(
    ("version", "code"), [(1, E.INVALID_PRODUCER_EPOCH), (2, E.PRODUCER_FENCED)]
)
async def test_fenced_producer_ends_no_transaction(tmp_path, version, code):
    async with broker_client(tmp_path, **SETTINGS) as one:
        await one.create("t")
        old, new = WireProducer(one), WireProducer(one)
        await old.begin()
        await old.add(0)
        await old.produce(b"a")
        assert (await new.init()).error_code == 0
        assert await old.end(version=version) == code
        assert await old.produce(b"b") == E.INVALID_PRODUCER_EPOCH
        assert await read_committed(one, wait_ms=100) == ([], 2)


def add_and_end(producer, *, first_correlation_id):
    """Returns frames that add partitions and commit."""
    add = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=producer.name,
        v3_and_below_producer_id=producer.producer.id,
        v3_and_below_producer_epoch=producer.producer.epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=[0, 1])],
    )
    end = EndTxnRequest(
        transactional_id=producer.name,
        producer_id=producer.producer.id,
        producer_epoch=producer.producer.epoch,
        committed=True,
    )
    frames = b""
    for number, (request, version) in enumerate([(add, ADD_VERSION), (end, END_VERSION)]):
        data = bytes(encode_request(request, version, first_correlation_id + number, "test"))
        frames += len(data).to_bytes(4, "big") + data
    return frames


async def state_of(one, producer):
    request = DescribeTransactionsRequest(transactional_ids=[producer.name])
    (known,) = (await one.call(request)).transaction_states
    return known.transaction_state


async def answers_to(stream, count):
    received, found = bytearray(), []
    while len(found) < count:
        received += await stream.receive_some()
        while len(received) >= 4 and len(received) >= 4 + (
            size := int.from_bytes(received[:4], "big")
        ):
            found.append(bytes(received[4 : 4 + size]))
            del received[: 4 + size]
    return found


async def test_simultaneous_requests_are_decided_in_order(tmp_path):
    async with broker_client(tmp_path, **SETTINGS) as one:
        await one.create("t", partitions=2)
        producer = WireProducer(one)
        await producer.begin()
        assert await producer.add(0) == [E.NONE]
        assert await producer.end() == E.NONE
        while await state_of(one, producer) != "CompleteCommit":
            await trio.lowlevel.checkpoint()
        rounds = 5
        frames = b"".join(
            add_and_end(producer, first_correlation_id=2 * number) for number in range(rounds)
        )
        async with await trio.open_tcp_stream(*one.broker.addresses["PLAINTEXT"]) as stream:
            await stream.send_all(frames)
            with trio.fail_after(60):
                answers = await answers_to(stream, 2 * rounds)
        for data in answers[1::2]:
            _, body = decode_response_header(data, EndTxnRequest.KEY, END_VERSION)
            assert EndTxnResponse.decode(data[body:], END_VERSION).error_code == E.NONE
        assert await state_of(one, producer) in ("PrepareCommit", "CompleteCommit")


async def test_unknown_transaction_is_refused(tmp_path):
    async with broker_client(tmp_path, **SETTINGS) as one:
        await WireProducer(one, "other").begin()
        producer = WireProducer(one)
        assert await producer.end() == E.INVALID_PRODUCER_ID_MAPPING
        assert await WireProducer(one, "").end() == E.INVALID_REQUEST


async def test_coordinator_writes_local_markers_without_connection(tmp_path):
    async with broker_client(tmp_path, **SETTINGS) as one:
        await one.create("t")
        producer = WireProducer(one)
        await producer.begin()
        await producer.add(0)
        await producer.produce(b"a")
        assert await producer.end() == E.NONE
        assert await read_committed(one, wait_ms=5000) == ([b"a"], 2)
        assert len(one.broker.parts.families.transactions.marker_channels) == 0


async def test_deleted_topic_needs_no_marker(tmp_path):
    async with broker_client(tmp_path, **SETTINGS) as one:
        await one.create("t", "u")
        producer = WireProducer(one)
        await producer.begin()
        for topic in ("t", "u"):
            assert await producer.add(0, topic=topic) == [E.NONE]
            assert await producer.produce(b"a", topic=topic) == E.NONE
        await one.delete("u")
        assert await producer.end() == E.NONE
        assert await read_committed(one, wait_ms=5000) == ([b"a"], 2)
        assert (await producer.init()).error_code == E.NONE
