"""DescribeTransactions (65): state, producer and partitions of transactions by their ids (KIP-664).

Source: `TransactionCoordinator.handleDescribeTransactions`.
"""

from __future__ import annotations

from broker.handlers.context import Context
from broker.transactions.listing import describe, not_described
from quorum.serving.authorization import may_with_topic
from wire.errors import ErrorCode
from wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from wire.security.acls import Operation
from wire.transport.access import topics, transactional_ids
from wire.transport.calls import Call
from wire.transport.heavy import PARTITIONS_ELEMENTS_MAX
from wire.transport.registry import handles
from wire.transport.slices import Slices


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
    slices=Slices("transactional_ids", "transaction_states"),
    elements_max=PARTITIONS_ELEMENTS_MAX,
)
def describe_transactions(
    request: DescribeTransactionsRequest, ctx: Context, call: Call
) -> DescribeTransactionsResponse:
    may_see = may_with_topic(ctx, call, Operation.DESCRIBE, asked_for=False)
    found = [describe(ctx.transactions, one) for one in request.transactional_ids]
    for one in found:
        one.topics = [topic for topic in one.topics if may_see(topic.topic)]
    return DescribeTransactionsResponse(transaction_states=found)
