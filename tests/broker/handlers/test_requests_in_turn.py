"""Requests decided as soon as they are read, and requests that wait for earlier ones."""

from __future__ import annotations

import pytest

from tests.broker.calls import call, connection, finished, through_wire
from tests.broker.handlers.world import open_world
from trimaran.broker.handlers.add_partitions_to_txn import add_partitions_to_txn
from trimaran.broker.handlers.end_txn import end_txn
from trimaran.broker.transactions.listing import describe
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from trimaran.wire.messages.end_txn import EndTxnRequest


async def begun(world, name):
    """The producer of a transactional id."""
    values = {"transactional_id": name, "transaction_timeout_ms": 60_000}
    answer = await world.ask("InitProducerId", 4, values)
    assert answer.error_code == ErrorCode.NONE
    return answer


def request_call(request, version, *, owes):
    client = connection()
    client.owes = owes
    return call(request, version, client)


def adding(producer, name, partitions):
    topic = AddPartitionsToTxnTopic(name="t", partitions=partitions)
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=[topic],
    )
    return through_wire(request, 3)


@pytest.mark.parametrize(
    ("owes", "count", "is_decided"),
    [(False, 1, True), (True, 1, False), (False, 200, True), (False, 201, False)],
)
async def test_few_partitions_are_added_at_once(tmp_path, owes, count, is_decided):
    async with open_world(tmp_path) as world:
        request = adding(await begun(world, "x"), "x", [0] * count)
        answer = add_partitions_to_txn(request, world.context, request_call(request, 3, owes=owes))
        state = describe(world.context.transactions, "x").transaction_state
        assert (state == "Ongoing") == is_decided, state
        told = await finished(answer)
        [topic] = told.results_by_topic_v3_and_below
        codes = [one.partition_error_code for one in topic.results_by_partition]
        assert codes == [ErrorCode.NONE] * count
        assert describe(world.context.transactions, "x").transaction_state == "Ongoing"


@pytest.mark.parametrize("owes", [False, True])
async def test_transaction_ends_at_once_without_pending_answer(tmp_path, owes):
    async with open_world(tmp_path) as world:
        producer = await begun(world, "x")
        request = adding(producer, "x", [0])
        await finished(
            add_partitions_to_txn(request, world.context, request_call(request, 3, owes=False))
        )
        ending = EndTxnRequest(
            transactional_id="x",
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            committed=True,
        )
        answer = end_txn(ending, world.context, request_call(ending, 4, owes=owes))
        state = describe(world.context.transactions, "x").transaction_state
        assert (state == "Ongoing") == owes, state
        assert (await finished(answer)).error_code == ErrorCode.NONE
