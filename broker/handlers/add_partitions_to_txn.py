"""AddPartitionsToTxn (24): takes partitions into a transaction; brokers ask so, too, what is in one.

Versions: up to 3 of clients, one transaction each; 2 PRODUCER_FENCED (KIP-588); 4 of brokers, many transactions, which
are added to or only verified (KIP-890); 5 TRANSACTION_ABORTABLE.
Source: `KafkaApis.handleAddPartitionsToTxnRequest`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

import trio

from trimaran.broker.handlers.context import TransactionContext
from trimaran.broker.metadata.internal_topics import INTERNAL_TOPICS
from trimaran.broker.transactions.transaction import EPOCH_BUMP_VERSION
from trimaran.node.replicated.pending import respond
from trimaran.node.replicated.state_machine import Producer
from trimaran.quorum.metadata.authorizer import Action
from trimaran.quorum.serving.authorization import check_cluster, may, may_with_topic
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import ProducerEpoch, ProducerId, TopicPartition
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
from trimaran.wire.transport.requests.calls import Call, DeferredResponse
from trimaran.wire.transport.requests.elements import MANY_ELEMENTS_MAX
from trimaran.wire.transport.requests.guard import JUDGED_PER_TURN
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.events import yield_to_loop

BATCHED_VERSION = 4
PRODUCER_FENCED_VERSION = 2
ABORTABLE_VERSION = 5
# Decided between two checkpoints, some 10 µs each.
TRANSACTIONS_PER_TURN = 500
E = ErrorCode


def _fail(
    request: AddPartitionsToTxnRequest, code: ErrorCode, _message: str
) -> AddPartitionsToTxnResponse:
    if request.transactions:
        return AddPartitionsToTxnResponse(error_code=code)
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=_results(request.v3_and_below_topics, lambda _one: code)
    )


@handles(
    AddPartitionsToTxnRequest,
    versions="0-5",
    access=(
        transactional_ids(Operation.WRITE, "v3_and_below_transactional_id").in_handler(
            "below version 4, where clients ask"
        ),
        topics(Operation.WRITE, "v3_and_below_topics.name").in_handler("all are added, or none"),
        cluster(Operation.CLUSTER_ACTION).in_handler("from version 4 on, which brokers ask"),
    ),
    on_error=_fail,
    elements_max=MANY_ELEMENTS_MAX,
)
def add_partitions_to_txn(
    request: AddPartitionsToTxnRequest, ctx: TransactionContext, call: Call
) -> AddPartitionsToTxnResponse | DeferredResponse[AddPartitionsToTxnResponse]:
    if call.header.api_version >= BATCHED_VERSION:
        check_cluster(ctx, call, Operation.CLUSTER_ACTION)
    elif not call.heavy and not call.connection.owes:
        found = _of_client_now(request, ctx, call)
        if found is not None:
            return found
    return DeferredResponse(lambda: _answer(request, ctx, call), on_error=partial(_fail, request))


async def _answer(
    request: AddPartitionsToTxnRequest, ctx: TransactionContext, call: Call
) -> AddPartitionsToTxnResponse:
    version = call.header.api_version
    if version < BATCHED_VERSION:
        return await _of_client(request, ctx, call)
    return AddPartitionsToTxnResponse(
        results_by_transaction=await _of_brokers(request.transactions, ctx, version)
    )


async def _of_brokers(
    transactions: Sequence[AddPartitionsToTxnTransaction], ctx: TransactionContext, version: int
) -> list[AddPartitionsToTxnResult]:
    """Some together, so that they are committed together."""
    results: dict[int, AddPartitionsToTxnResult] = {}
    added = {
        one for each in transactions if not each.verify_only for one in _partitions(each.topics)
    }
    unknown = await ctx.transactions.wait_known(added)

    async def answer(index: int) -> None:
        results[index] = await _of_broker(transactions[index], ctx, version, unknown)

    for start in range(0, len(transactions), TRANSACTIONS_PER_TURN):
        async with trio.open_nursery() as nursery:
            for index in range(start, min(start + TRANSACTIONS_PER_TURN, len(transactions))):
                nursery.start_soon(answer, index)
    return [results[index] for index in range(len(transactions))]


def _of_client_now(
    request: AddPartitionsToTxnRequest, ctx: TransactionContext, call: Call
) -> AddPartitionsToTxnResponse | DeferredResponse[AddPartitionsToTxnResponse] | None:
    """As `_of_client`, with all decided when this returns; None where something is in the way."""
    asked, transactional_id = request.v3_and_below_topics, request.v3_and_below_transactional_id
    partitions = _partitions(asked)
    code_of = _judge(ctx, call)
    if (
        len(partitions) > JUDGED_PER_TURN
        or not may(ctx, call, _writing(transactional_id))
        or any(map(code_of, partitions))
    ):
        return None
    producer = Producer(
        ProducerId(request.v3_and_below_producer_id),
        ProducerEpoch(request.v3_and_below_producer_epoch),
    )
    pending = ctx.transactions.add_partitions_now(transactional_id, producer, partitions, 0)
    if pending is None:
        return None

    def told(code: ErrorCode) -> AddPartitionsToTxnResponse:
        return AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=_results(asked, lambda _one: code)
        )

    return respond(pending, lambda _added: told(E.NONE), told)


async def _of_client(
    request: AddPartitionsToTxnRequest, ctx: TransactionContext, call: Call
) -> AddPartitionsToTxnResponse:
    asked, transactional_id = request.v3_and_below_topics, request.v3_and_below_transactional_id
    if not may(ctx, call, _writing(transactional_id)):
        return _fail(request, E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "")
    partitions = _partitions(asked)
    codes = await _refused(partitions, ctx, call)
    if not codes:
        code = await _add(
            ctx,
            transactional_id,
            Producer(
                ProducerId(request.v3_and_below_producer_id),
                ProducerEpoch(request.v3_and_below_producer_epoch),
            ),
            partitions,
        )
        if code is E.PRODUCER_FENCED and call.header.api_version < PRODUCER_FENCED_VERSION:
            code = E.INVALID_PRODUCER_EPOCH
        codes = dict.fromkeys(partitions, code)
    others = E.OPERATION_NOT_ATTEMPTED  # all are added, or none
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=_results(asked, lambda one: codes.get(one, others))
    )


def _writing(transactional_id: str) -> Action:
    return Action(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)


async def _refused(
    partitions: Sequence[TopicPartition], ctx: TransactionContext, call: Call
) -> Mapping[TopicPartition, ErrorCode]:
    """Those that cannot be written to, looked at some at a time."""
    code_of, codes = _judge(ctx, call), {}
    for number, one in enumerate(partitions, 1):
        if number % JUDGED_PER_TURN == 0:
            await yield_to_loop()
        if code := code_of(one):
            codes[one] = code
    return codes


def _judge(ctx: TransactionContext, call: Call) -> Callable[[TopicPartition], ErrorCode]:
    """Says of each partition why it cannot be written to."""
    may_write = may_with_topic(ctx, call, Operation.WRITE)
    known = ctx.metadata.image.topics.by_name

    def code_of(one: TopicPartition) -> ErrorCode:
        name, index = one
        if not may_write(name):
            return E.TOPIC_AUTHORIZATION_FAILED
        if name in INTERNAL_TOPICS:
            return E.INVALID_TOPIC_EXCEPTION
        is_known = name in known and index in known[name].partitions
        return E.NONE if is_known else E.UNKNOWN_TOPIC_OR_PARTITION

    return code_of


async def _add(
    ctx: TransactionContext,
    transactional_id: str,
    producer: Producer,
    partitions: Sequence[TopicPartition],
) -> ErrorCode:
    try:
        await ctx.transactions.add_partitions(transactional_id, producer, partitions, 0)
    except KafkaError as error:
        return error.code
    return E.NONE


async def _of_broker(
    transaction: AddPartitionsToTxnTransaction,
    ctx: TransactionContext,
    version: int,
    unknown: Collection[TopicPartition],
) -> AddPartitionsToTxnResult:
    """Nobody waits here for the transaction before: the broker asks again, and others' questions go on."""
    producer = Producer(
        ProducerId(transaction.producer_id), ProducerEpoch(transaction.producer_epoch)
    )
    partitions = _partitions(transaction.topics)
    who = (transaction.transactional_id, producer, partitions)
    try:
        if not transaction.verify_only and any(one in unknown for one in partitions):
            codes = dict.fromkeys(partitions, E.COORDINATOR_NOT_AVAILABLE)
        elif transaction.verify_only:
            codes = _unknown_of(partitions, ctx) or await ctx.transactions.verify_partitions(*who)
        else:
            await ctx.transactions.add_partitions(*who, EPOCH_BUMP_VERSION, seconds=0)
            codes = dict.fromkeys(partitions, E.NONE)
    except KafkaError as error:
        codes = dict.fromkeys(partitions, error.code)

    def shown(one: TopicPartition) -> ErrorCode:
        code = codes[one]
        is_old = code is E.TRANSACTION_ABORTABLE and version < ABORTABLE_VERSION
        return E.INVALID_TXN_STATE if is_old else code

    return AddPartitionsToTxnResult(
        transactional_id=transaction.transactional_id,
        topic_results=_results(transaction.topics, shown),
    )


def _unknown_of(
    partitions: Sequence[TopicPartition], ctx: TransactionContext
) -> dict[TopicPartition, ErrorCode]:
    """What is verified was added once, so a partition that is not here is gone; the others are not looked at then."""
    known = ctx.metadata.image.topics.by_name
    gone = {
        one for one in partitions if one[0] not in known or one[1] not in known[one[0]].partitions
    }
    if not gone:
        return {}
    return {
        one: E.UNKNOWN_TOPIC_OR_PARTITION if one in gone else E.OPERATION_NOT_ATTEMPTED
        for one in partitions
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
