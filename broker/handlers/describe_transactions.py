"""DescribeTransactions (65): returns the state, producer and partitions of transactions by id (KIP-664).

Source: `TransactionCoordinator.handleDescribeTransactions`.
"""

from __future__ import annotations

from trimaran.broker.handlers.context import TransactionContext
from trimaran.broker.transactions.listing import describe, not_described
from trimaran.quorum.serving.authorization import may_with_topic
from trimaran.wire.codec.declarations import EncodedArray
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import topics, transactional_ids
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import PARTITIONS_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.requests.once import Once
from trimaran.wire.transport.scheduling.effects import Handling


def _fail(
    request: DescribeTransactionsRequest, code: ErrorCode, _message: str
) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[
            not_described(transactional_id, code) for transactional_id in request.transactional_ids
        ]
    )


@handles(
    DescribeTransactionsRequest,
    versions="0",
    access=(
        transactional_ids(Operation.DESCRIBE, "transactional_ids.*", "transaction_states"),
        topics(Operation.DESCRIBE).in_handler("topics of each transaction"),
    ),
    on_error=_fail,
    elements_max=PARTITIONS_ELEMENTS_MAX,
    once=Once("transactional_ids"),
)
def describe_transactions(
    request: DescribeTransactionsRequest, ctx: TransactionContext, call: Call
) -> Handling[DescribeTransactionsResponse]:
    may_see = may_with_topic(ctx, call, Operation.DESCRIBE, asked_for=False)
    room, states = call.room(), EncodedArray()
    for transactional_id in request.transactional_ids:
        found = describe(ctx.transactions, transactional_id)
        visible = (topic for topic in found.topics if may_see(topic.topic))
        try:
            states.append((yield from room.encoding_with(found, "topics", visible)))
        except KafkaError as error:
            states.append(room.refusal(not_described(transactional_id, error.code)))
        yield None
    return DescribeTransactionsResponse(transaction_states=states)
