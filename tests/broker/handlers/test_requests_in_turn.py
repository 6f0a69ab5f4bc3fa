"""Requests of transactions take effect before they wait for anything."""

from __future__ import annotations

import pytest

from tests.broker.calls import call, carried_out, finished, through_wire
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
from trimaran.wire.transport.scheduling.effects import Wait


async def begun(world, name):
    """Returns the producer of a transactional id."""
    values = {"transactional_id": name, "transaction_timeout_ms": 60_000}
    answer = await world.ask("InitProducerId", 4, values)
    assert answer.error_code == ErrorCode.NONE
    return answer


def adding(producer, name, partitions):
    topic = AddPartitionsToTxnTopic(name="t", partitions=partitions)
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=[topic],
    )
    return through_wire(request, 3)


@pytest.mark.parametrize("count", [1, 201])
async def test_partitions_are_added_before_anything_is_awaited(tmp_path, count):
    async with open_world(tmp_path) as world:
        request = adding(await begun(world, "x"), "x", [0] * count)
        effects = []
        steps = add_partitions_to_txn(request, world.contexts.transactions, call(request, 3))
        told = await carried_out(steps, effects)
        assert effects[:count] == [None] * count
        assert all(isinstance(effect, Wait) for effect in effects[count:])
        [topic] = told.results_by_topic_v3_and_below
        codes = [each.partition_error_code for each in topic.results_by_partition]
        assert codes == [ErrorCode.NONE] * count
        assert (
            describe(world.contexts.transactions.transactions, "x").transaction_state == "Ongoing"
        )


async def test_transaction_ends_before_anything_is_awaited(tmp_path):
    async with open_world(tmp_path) as world:
        producer = await begun(world, "x")
        request = adding(producer, "x", [0])
        await finished(
            add_partitions_to_txn(request, world.contexts.transactions, call(request, 3))
        )
        ending = EndTxnRequest(
            transactional_id="x",
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            committed=True,
        )
        effects = []
        answer = await carried_out(
            end_txn(ending, world.contexts.transactions, call(ending, 4)), effects
        )
        assert answer.error_code == ErrorCode.NONE
        assert all(isinstance(effect, Wait) for effect in effects)
