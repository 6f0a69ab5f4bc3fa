"""DescribeTransactions (65): state, producer and partitions of transactions by their ids (KIP-664).

Source: `TransactionCoordinator.handleDescribeTransactions`.
"""

from __future__ import annotations

from functools import partial

from trimaran.broker.handlers.context import Context
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
from trimaran.wire.transport.requests.calls import Call, DeferredResponse
from trimaran.wire.transport.requests.elements import PARTITIONS_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.requests.once import Once


def _fail(
    request: DescribeTransactionsRequest, code: ErrorCode, _message: str
) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[not_described(one, code) for one in request.transactional_ids]
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
    request: DescribeTransactionsRequest, ctx: Context, call: Call
) -> DeferredResponse[DescribeTransactionsResponse]:
    may_see = may_with_topic(ctx, call, Operation.DESCRIBE, asked_for=False)
    room = call.room()

    async def one(transactional_id: str) -> bytes:
        found = describe(ctx.transactions, transactional_id)
        visible = (topic for topic in found.topics if may_see(topic.topic))
        try:
            return await room.encoded_with(found, "topics", visible)
        except KafkaError as error:
            return room.refusal(not_described(transactional_id, error.code))

    async def finish() -> DescribeTransactionsResponse:
        states = EncodedArray()
        for transactional_id in request.transactional_ids:
            states.append(await one(transactional_id))
            await room.pause()
        return DescribeTransactionsResponse(transaction_states=states)

    return DeferredResponse(finish, on_error=partial(_fail, request))
