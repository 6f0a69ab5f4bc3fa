"""DescribeTransactions: a transaction by its id, or the reason why it is not known here."""

from __future__ import annotations

from tests.broker.handlers.broker_client import broker_client
from tests.broker.transactions.wire_producer import SETTINGS, WireProducer
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.describe_transactions import DescribeTransactionsRequest

E = ErrorCode


async def described(one, *names):
    answer = await one.call(DescribeTransactionsRequest(transactional_ids=list(names)))
    return answer.transaction_states


async def test_transaction_is_described_completely(tmp_path):
    async with broker_client(tmp_path, **SETTINGS) as one:
        await one.create("t", partitions=2)
        producer = WireProducer(one)
        await producer.begin(timeout_ms=12_345)
        await producer.add(1, 0)
        known, unknown, empty = await described(one, "x", "y", "")
        assert (known.error_code, known.transaction_state) == (E.NONE, "Ongoing")
        assert (known.producer_id, known.producer_epoch) == producer.producer
        assert known.transaction_timeout_ms == 12_345
        assert known.transaction_start_time_ms > 0
        assert [(topic.topic, topic.partitions) for topic in known.topics] == [("t", [0, 1])]
        assert unknown.error_code == E.TRANSACTIONAL_ID_NOT_FOUND
        assert empty.error_code == E.INVALID_REQUEST


async def test_missing_topic_means_no_coordinator(tmp_path):
    async with broker_client(tmp_path, **SETTINGS) as one:
        (found,) = await described(one, "x")
        assert (found.transactional_id, found.error_code) == ("x", E.NOT_COORDINATOR)
