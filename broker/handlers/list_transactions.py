"""ListTransactions (66): the transactional ids that this broker coordinates, by state, producer, age and name.

Versions: 1 by age (KIP-994), 2 by a pattern of the id (KIP-1152), which is matched in linear time (RE2, as Kafka's).
"""

from __future__ import annotations

from trimaran.broker.handlers.context import TransactionContext
from trimaran.broker.transactions.listing import IDS_PER_TURN, STATE_NAMES
from trimaran.broker.transactions.listing import list_transactions as listed
from trimaran.quorum.serving.authorization import may_with
from trimaran.wire.codec.declarations import EncodedArray
from trimaran.wire.errors import KafkaError
from trimaran.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from trimaran.wire.security.acls import Operation, ResourceType
from trimaran.wire.transport.memory.room import JUDGED_WORK, OBJECT_BYTES
from trimaran.wire.transport.requests.access import transactional_ids
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import FEW_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles


@handles(
    ListTransactionsRequest,
    versions="0-2",
    access=transactional_ids(
        Operation.DESCRIBE, listed="transaction_states.transactional_id"
    ).in_handler("before the response is encoded"),
    elements_max=FEW_ELEMENTS_MAX,
)
async def list_transactions(
    request: ListTransactionsRequest, ctx: TransactionContext, call: Call
) -> ListTransactionsResponse:
    asked = dict.fromkeys(request.state_filters)
    unknown = [name for name in asked if name not in STATE_NAMES]
    if unknown and len(unknown) == len(asked):
        return ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=[])
    found, room = EncodedArray(), call.room()
    may_see = may_with(
        ctx, call, Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, asked_for=False
    )
    try:
        await room.pause(IDS_PER_TURN * OBJECT_BYTES)
        async for some in listed(ctx.transactions, request, ctx.now_ms(), call.connection.id):
            for one in some:
                if may_see(one.transactional_id):
                    found.append(room.encoded(one))
                room.worked(JUDGED_WORK)
                await room.pause()
            await room.pause(IDS_PER_TURN * OBJECT_BYTES)
    except KafkaError as error:
        return ListTransactionsResponse(
            error_code=error.code, unknown_state_filters=[], transaction_states=[]
        )
    return ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=found)
