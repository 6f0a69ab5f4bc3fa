"""AddOffsetsToTxn (25): adds the partition with a group's offsets to a transaction.

Versions: 2 PRODUCER_FENCED (KIP-588), 4 TRANSACTION_ABORTABLE. Source: `KafkaApis.handleAddOffsetsToTxnRequest`.
"""

from __future__ import annotations

from functools import partial

from trimaran.broker.handlers.context import TransactionContext
from trimaran.broker.metadata.internal_topics import CONSUMER_OFFSETS
from trimaran.node.replicated.pending import settled
from trimaran.node.replicated.state_machine import Producer
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicPartition
from trimaran.wire.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import groups, transactional_ids
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Blocking, Handling

PRODUCER_FENCED_VERSION = 2


@handles(
    AddOffsetsToTxnRequest,
    versions="0-4",
    access=(
        transactional_ids(Operation.WRITE, "transactional_id"),
        groups(Operation.READ, "group_id"),
    ),
)
def add_offsets_to_txn(
    request: AddOffsetsToTxnRequest, ctx: TransactionContext, call: Call
) -> Handling[AddOffsetsToTxnResponse]:
    producer = Producer(request.producer_id, request.producer_epoch)
    try:
        if CONSUMER_OFFSETS not in ctx.metadata.image.topics.by_name:
            yield Blocking(partial(ctx.topic_creation.create, [CONSUMER_OFFSETS]))
        partition = TopicPartition(CONSUMER_OFFSETS, ctx.groups.partition_of(request.group_id))
        pending = yield from ctx.transactions.adding_partitions(
            request.transactional_id, producer, [partition], 0
        )
        yield from settled(pending)
    except KafkaError as error:
        code = error.code
        if code is ErrorCode.PRODUCER_FENCED and call.header.api_version < PRODUCER_FENCED_VERSION:
            code = ErrorCode.INVALID_PRODUCER_EPOCH
        return AddOffsetsToTxnResponse(error_code=code)
    return AddOffsetsToTxnResponse()
