"""AddPartitionsToTxn: a client's partitions are all added or none; brokers verify many transactions at once."""

from __future__ import annotations

from functools import partial

import pytest

from tests.broker.handlers.broker_client import broker_client
from tests.broker.transactions.wire_producer import SETTINGS, WireProducer, allowed_at_once
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import TopicPartition
from trimaran.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

E = ErrorCode


async def test_all_partitions_are_added_or_none(tmp_path):
    async with broker_client(tmp_path, **SETTINGS) as one:
        await one.create("t", partitions=2)
        producer = WireProducer(one)
        await producer.begin()
        assert await producer.add(0, 7) == [E.OPERATION_NOT_ATTEMPTED, E.UNKNOWN_TOPIC_OR_PARTITION]
        assert await producer.add(0, topic="nowhere") == [E.UNKNOWN_TOPIC_OR_PARTITION]
        assert await producer.add(0, topic="__transaction_state") == [E.INVALID_TOPIC_EXCEPTION]
        assert await producer.produce(b"a") == E.INVALID_TXN_STATE
        assert await producer.add(0, 1) == [E.NONE, E.NONE]
        assert await producer.produce(b"a") == E.NONE
        assert await producer.produce(b"a", 1) == E.NONE


@pytest.mark.parametrize(
    ("version", "code"), [(1, E.INVALID_PRODUCER_EPOCH), (3, E.PRODUCER_FENCED)]
)
async def test_unauthorized_or_invalid_requests_are_refused(tmp_path, version, code):
    async with broker_client(tmp_path, **SETTINGS) as one:
        await one.create("t")
        old, new = WireProducer(one), WireProducer(one)
        await old.begin()
        await new.begin()
        assert await old.add(0, version=version) == [code]
        assert await WireProducer(one).add(0) == [E.INVALID_PRODUCER_ID_MAPPING]
        assert await WireProducer(one, "").add(0) == [E.INVALID_REQUEST]


def question(producer, *partitions, verify_only=True, name=None):
    return AddPartitionsToTxnTransaction(
        transactional_id=producer.name if name is None else name,
        producer_id=producer.producer.id,
        producer_epoch=producer.producer.epoch,
        verify_only=verify_only,
        topics=[AddPartitionsToTxnTopic(name="t", partitions=list(partitions))],
    )


async def ask(one, version, *questions):
    answer = await one.call(AddPartitionsToTxnRequest(transactions=list(questions)), version)
    assert answer.error_code == 0
    return {
        result.transactional_id: {
            partition.partition_index: E.of(partition.partition_error_code)
            for topic in result.topic_results
            for partition in topic.results_by_partition
        }
        for result in answer.results_by_transaction
    }


async def test_brokers_verify_many_transactions_at_once(tmp_path):
    async with broker_client(tmp_path, **SETTINGS) as one:
        await one.create("t", partitions=3)
        first, second = WireProducer(one, "first"), WireProducer(one, "second")
        await first.begin()
        await second.begin()
        await first.add(0)
        questions = (
            question(first, 0, 1),
            question(second, 2, verify_only=False),
            question(second, 7, verify_only=False, name="third"),
        )
        assert await ask(one, 5, *questions) == {
            "first": {0: E.NONE, 1: E.TRANSACTION_ABORTABLE},
            "second": {2: E.NONE},
            "third": {7: E.COORDINATOR_NOT_AVAILABLE},
        }
        assert await ask(one, 4, question(first, 1), question(second, 2)) == {
            "first": {1: E.INVALID_TXN_STATE},
            "second": {2: E.NONE},
        }


async def test_missing_partitions_fail_the_verification(tmp_path):
    """Kafka returns the same code for any client and any transaction."""
    async with broker_client(tmp_path, **SETTINGS) as one:
        await one.create("t", partitions=2)
        first = WireProducer(one, "first")
        await first.begin()
        await first.add(0)
        answers = await ask(one, 5, question(first, 0, 7), question(first, 7, name="unknown"))
        assert answers == {
            "first": {0: E.OPERATION_NOT_ATTEMPTED, 7: E.UNKNOWN_TOPIC_OR_PARTITION},
            "unknown": {7: E.UNKNOWN_TOPIC_OR_PARTITION},
        }


async def test_coordinating_broker_verifies_locally(tmp_path):
    async with broker_client(tmp_path, **SETTINGS) as one:
        await one.create("t", partitions=2)
        producer = WireProducer(one)
        await producer.begin()
        assert await producer.add(0) == [E.NONE]
        check = partial(allowed_at_once, one.broker.parts.families.transactions.verifier)
        mine, other = [TopicPartition("t", 0)], [TopicPartition("t", 0), TopicPartition("t", 1)]
        assert check("x", producer.producer, mine, 9)
        assert not check("x", producer.producer, other, 9)
        assert not check("y", producer.producer, mine, 9)
        assert check("x", producer.producer, mine, 12)
        await producer.end()
        assert not check("x", producer.producer, mine, 9)
