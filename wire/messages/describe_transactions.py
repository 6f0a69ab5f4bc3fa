"""DescribeTransactions (65): the state of transactions by their ids (KIP-664)."""

from trimaran.wire.codec.declarations import (
    Struct,
    int16,
    int16_producer_epoch,
    int32,
    int64,
    int64_producer_id,
    string,
)
from trimaran.wire.schema import Message, request, response


@request(key=65, versions="0", flexible="0+")
class DescribeTransactionsRequest(Message):
    transactional_ids: list[string]


class TopicData(Struct):
    topic: string
    partitions: list[int32]


class TransactionState(Struct):
    error_code: int16 = 0
    transactional_id: string
    transaction_state: string
    transaction_timeout_ms: int32
    transaction_start_time_ms: int64
    producer_id: int64_producer_id
    producer_epoch: int16_producer_epoch
    topics: list[TopicData]


@response(key=65, versions="0", flexible="0+")
class DescribeTransactionsResponse(Message):
    throttle_time_ms: int32 = 0
    transaction_states: list[TransactionState]
