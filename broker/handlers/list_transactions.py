"""ListTransactions (66): the transactional ids that this broker coordinates, by state, producer, age and name.

Versions: 1 by age (KIP-994), 2 by a pattern of the id (KIP-1152), which is matched in linear time (RE2, as Kafka's).
"""

from __future__ import annotations

from broker.handlers.context import Context
from broker.transactions.listing import list_transactions as listed
from wire.errors import KafkaError
from wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from wire.security.acls import Operation
from wire.transport.access import transactional_ids
from wire.transport.calls import Call, DeferredResponse
from wire.transport.heavy import FEW_ELEMENTS_MAX
from wire.transport.registry import handles


@handles(
    ListTransactionsRequest,
    versions="0-2",
    access=transactional_ids(Operation.DESCRIBE, listed="transaction_states.transactional_id"),
    elements_max=FEW_ELEMENTS_MAX,
)
def list_transactions(
    request: ListTransactionsRequest, ctx: Context, call: Call
) -> DeferredResponse[ListTransactionsResponse]:
    async def finish() -> ListTransactionsResponse:
        try:
            return await listed(ctx.transactions, request, ctx.now_ms(), call.connection.id)
        except KafkaError as error:
            return ListTransactionsResponse(
                error_code=error.code, unknown_state_filters=[], transaction_states=[]
            )

    return DeferredResponse(finish)
