"""AddPartitionsToTxn (24): adds partitions to a transaction, or only checks that they are in it.

Versions: 2 PRODUCER_FENCED (KIP-588); 3 flexible; 4 several transactions and checks, between brokers (KIP-890); 5
TRANSACTION_ABORTABLE. Clients use lower versions than 4.
"""

from trimaran.wire.codec.declarations import (
    Struct,
    boolean,
    field,
    int16,
    int16_producer_epoch,
    int32,
    int64_producer_id,
    string,
)
from trimaran.wire.schema import Message, request, response


class AddPartitionsToTxnTopic(Struct):
    name: string
    partitions: list[int32]


class AddPartitionsToTxnTransaction(Struct):
    transactional_id: string
    producer_id: int64_producer_id
    producer_epoch: int16_producer_epoch
    verify_only: boolean = False
    topics: list[AddPartitionsToTxnTopic]


@request(key=24, versions="0-5", flexible="3+")
class AddPartitionsToTxnRequest(Message):
    transactions: list[AddPartitionsToTxnTransaction] = field("4+", factory=list)
    v3_and_below_transactional_id: string = field("0-3", default="")
    v3_and_below_producer_id: int64_producer_id = field("0-3", default=0)
    v3_and_below_producer_epoch: int16_producer_epoch = field("0-3", default=0)
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = field("0-3", factory=list)


class AddPartitionsToTxnPartitionResult(Struct):
    partition_index: int32
    partition_error_code: int16 = 0


class AddPartitionsToTxnTopicResult(Struct):
    name: string
    results_by_partition: list[AddPartitionsToTxnPartitionResult]


class AddPartitionsToTxnResult(Struct):
    transactional_id: string
    topic_results: list[AddPartitionsToTxnTopicResult]


@response(key=24, versions="0-5", flexible="3+")
class AddPartitionsToTxnResponse(Message):
    throttle_time_ms: int32 = 0
    error_code: int16 = field("4+", default=0, ignorable=True)
    results_by_transaction: list[AddPartitionsToTxnResult] = field("4+", factory=list)
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = field("0-3", factory=list)
