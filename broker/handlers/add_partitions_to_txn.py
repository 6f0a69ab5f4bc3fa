"""AddPartitionsToTxn (24): adds partitions to a transaction; brokers also use it to verify that a transaction has
partitions.

Versions: up to 3 from clients, with one transaction per request; 2 PRODUCER_FENCED (KIP-588); 4 from brokers, with many
transactions that are extended or only verified (KIP-890); 5 TRANSACTION_ABORTABLE. Source:
`KafkaApis.handleAddPartitionsToTxnRequest`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

from trimaran.broker.handlers.context import TransactionContext
from trimaran.broker.metadata.internal_topics import INTERNAL_TOPICS
from trimaran.broker.transactions.transaction import EPOCH_BUMP_VERSION
from trimaran.node.replicated.pending import PendingResponse, settled
from trimaran.node.replicated.state_machine import Producer
from trimaran.quorum.metadata.authorizer import Action
from trimaran.quorum.serving.authorization import check_cluster, may, may_with_topic
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicPartition
from trimaran.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from trimaran.wire.security.acls import Operation, ResourceType
from trimaran.wire.transport.requests.access import cluster, topics, transactional_ids
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import MANY_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Blocking, Handling

BATCHED_VERSION = 4
PRODUCER_FENCED_VERSION = 2
ABORTABLE_VERSION = 5
E = ErrorCode
Codes = Mapping[TopicPartition, ErrorCode]


def _fail(
    request: AddPartitionsToTxnRequest, code: ErrorCode, _message: str
) -> AddPartitionsToTxnResponse:
    if request.transactions:
        return AddPartitionsToTxnResponse(error_code=code)
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=_results(request.v3_and_below_topics, lambda _key: code)
    )


@handles(
    AddPartitionsToTxnRequest,
    versions="0-5",
    access=(
        transactional_ids(Operation.WRITE, "v3_and_below_transactional_id").in_handler(
            "below version 4, from clients"
        ),
        topics(Operation.WRITE, "v3_and_below_topics.name").in_handler("all are added, or none"),
        cluster(Operation.CLUSTER_ACTION).in_handler("from version 4 on, from brokers"),
    ),
    on_error=_fail,
    elements_max=MANY_ELEMENTS_MAX,
)
def add_partitions_to_txn(
    request: AddPartitionsToTxnRequest, ctx: TransactionContext, call: Call
) -> Handling[AddPartitionsToTxnResponse]:
    if call.header.api_version < BATCHED_VERSION:
        return (yield from _of_client(request, ctx, call))
    check_cluster(ctx, call, Operation.CLUSTER_ACTION)
    return (yield from _of_broker(request.transactions, ctx, call))


def _of_client(
    request: AddPartitionsToTxnRequest, ctx: TransactionContext, call: Call
) -> Handling[AddPartitionsToTxnResponse]:
    asked, transactional_id = request.v3_and_below_topics, request.v3_and_below_transactional_id
    if not may(ctx, call, Action(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)):
        raise KafkaError(E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    partitions, codes = _partitions(asked), {}
    code_of = _judge(ctx, call)
    for partition in partitions:
        if code := code_of(partition):
            codes[partition] = code
        yield None
    others = E.OPERATION_NOT_ATTEMPTED  # all or none are added
    if not codes:
        producer = Producer(
            request.v3_and_below_producer_id,
            request.v3_and_below_producer_epoch,
        )
        others = yield from _added(transactional_id, producer, partitions, ctx)
        if others is E.PRODUCER_FENCED and call.header.api_version < PRODUCER_FENCED_VERSION:
            others = E.INVALID_PRODUCER_EPOCH
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=_results(asked, lambda key: codes.get(key, others))
    )


def _added(
    transactional_id: str,
    producer: Producer,
    partitions: Sequence[TopicPartition],
    ctx: TransactionContext,
) -> Handling[ErrorCode]:
    try:
        pending = yield from ctx.transactions.adding_partitions(
            transactional_id, producer, partitions, 0
        )
        yield from settled(pending)
    except KafkaError as error:
        return error.code
    return E.NONE


def _judge(ctx: TransactionContext, call: Call) -> Callable[[TopicPartition], ErrorCode]:
    """Returns a function from a partition to the code that forbids writing to it, or NONE."""
    may_write = may_with_topic(ctx, call, Operation.WRITE)
    known = ctx.metadata.image.topics.by_name

    def code_of(key: TopicPartition) -> ErrorCode:
        name, index = key
        if not may_write(name):
            return E.TOPIC_AUTHORIZATION_FAILED
        if name in INTERNAL_TOPICS:
            return E.INVALID_TOPIC_EXCEPTION
        is_known = name in known and index in known[name].partitions
        return E.NONE if is_known else E.UNKNOWN_TOPIC_OR_PARTITION

    return code_of


def _of_broker(
    transactions: Sequence[AddPartitionsToTxnTransaction], ctx: TransactionContext, call: Call
) -> Handling[AddPartitionsToTxnResponse]:
    """Decides all transactions first, so that their records are committed together. Does not wait for the producer's
    previous transaction to end: the broker retries.
    """
    missing: Collection[TopicPartition] = ctx.transactions.unknown(
        {
            key
            for transaction in transactions
            if not transaction.verify_only
            for key in _partitions(transaction.topics)
        }
    )
    if missing:
        missing = yield Blocking(partial(ctx.transactions.wait_known, missing))
    decided: list[Codes | PendingResponse[Any]] = []
    for transaction in transactions:
        try:
            decided.append(_decided(transaction, ctx, missing))
        except KafkaError as error:
            decided.append(dict.fromkeys(_partitions(transaction.topics), error.code))
        yield None
    results = []
    for transaction, found in zip(transactions, decided, strict=True):
        codes = yield from _codes(transaction, found)
        results.append(_result(transaction, codes, call.header.api_version))
        yield None
    return AddPartitionsToTxnResponse(results_by_transaction=results)


def _decided(
    transaction: AddPartitionsToTxnTransaction,
    ctx: TransactionContext,
    missing: Collection[TopicPartition],
) -> Codes | PendingResponse[Any]:
    """Returns the codes of the partitions, or the pending decision. Raises KafkaError with the code for all
    partitions.
    """
    name, partitions = transaction.transactional_id, _partitions(transaction.topics)
    producer = Producer(transaction.producer_id, transaction.producer_epoch)
    if transaction.verify_only:
        return _unknown_of(partitions, ctx) or ctx.transactions.verify_partitions(
            name, producer, partitions
        )
    if any(key in missing for key in partitions):
        raise KafkaError(E.COORDINATOR_NOT_AVAILABLE)
    return ctx.transactions.add_partitions(name, producer, partitions, EPOCH_BUMP_VERSION)


def _codes(
    transaction: AddPartitionsToTxnTransaction, found: Codes | PendingResponse[Any]
) -> Handling[Codes]:
    """Returns the codes of the partitions as soon as they are final."""
    if not isinstance(found, PendingResponse):
        return found
    try:
        response = yield from settled(found)
    except KafkaError as error:
        return dict.fromkeys(_partitions(transaction.topics), error.code)
    verified: Codes = response
    return (
        verified
        if transaction.verify_only
        else dict.fromkeys(_partitions(transaction.topics), E.NONE)
    )


def _result(
    transaction: AddPartitionsToTxnTransaction, codes: Codes, version: int
) -> AddPartitionsToTxnResult:
    def shown(key: TopicPartition) -> ErrorCode:
        code = codes[key]
        is_old = code is E.TRANSACTION_ABORTABLE and version < ABORTABLE_VERSION
        return E.INVALID_TXN_STATE if is_old else code

    return AddPartitionsToTxnResult(
        transactional_id=transaction.transactional_id,
        topic_results=_results(transaction.topics, shown),
    )


def _unknown_of(
    partitions: Sequence[TopicPartition], ctx: TransactionContext
) -> dict[TopicPartition, ErrorCode]:
    """Returns the codes of all partitions if any partition has been deleted, else an empty dict: the partitions to
    verify existed when they were added. The remaining ones are not verified in that case.
    """
    known = ctx.metadata.image.topics.by_name
    gone = {
        (name, index)
        for name, index in partitions
        if name not in known or index not in known[name].partitions
    }
    if not gone:
        return {}
    return {
        key: E.UNKNOWN_TOPIC_OR_PARTITION if key in gone else E.OPERATION_NOT_ATTEMPTED
        for key in partitions
    }


def _partitions(topics: Sequence[AddPartitionsToTxnTopic]) -> list[TopicPartition]:
    return [TopicPartition(topic.name, index) for topic in topics for index in topic.partitions]


def _results(
    topics: Sequence[AddPartitionsToTxnTopic], code_of: Callable[[TopicPartition], ErrorCode]
) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=index,
                    partition_error_code=code_of(TopicPartition(topic.name, index)),
                )
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]
