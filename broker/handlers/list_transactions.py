"""ListTransactions (66): lists the transactional ids that this broker coordinates, by state, producer, age and name.

Versions: 1 a filter by age (KIP-994), 2 a pattern of the id (KIP-1152), which is matched in linear time (RE2, as in
Kafka).
"""

from __future__ import annotations

from trimaran.broker.handlers.context import TransactionContext
from trimaran.broker.transactions.listing import (
    IDS_PER_STEP,
    STATE_NAMES,
    candidates,
    matching,
    pattern_of,
)
from trimaran.broker.transactions.transaction import Transaction
from trimaran.quorum.serving.authorization import may_with
from trimaran.wire.codec.declarations import EncodedArray
from trimaran.wire.errors import KafkaError
from trimaran.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)
from trimaran.wire.security.acls import Operation, ResourceType
from trimaran.wire.transport.memory.room import JUDGED_WORK, OBJECT_BYTES
from trimaran.wire.transport.requests.access import transactional_ids
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import FEW_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Handling


@handles(
    ListTransactionsRequest,
    versions="0-2",
    access=transactional_ids(
        Operation.DESCRIBE, listed="transaction_states.transactional_id"
    ).in_handler("before the response is encoded"),
    elements_max=FEW_ELEMENTS_MAX,
)
def list_transactions(
    request: ListTransactionsRequest, ctx: TransactionContext, call: Call
) -> Handling[ListTransactionsResponse]:
    unknown = [name for name in dict.fromkeys(request.state_filters) if name not in STATE_NAMES]
    found, room = EncodedArray(), call.room()
    may_see = may_with(
        ctx, call, Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, asked_for=False
    )
    try:
        matches = pattern_of(request.transactional_id_pattern)
        room.expect(IDS_PER_STEP * OBJECT_BYTES)
        yield None
        for some in candidates(ctx.transactions, request, ctx.now_ms()):
            names = yield from matching(matches, list(some), call.connection.id)
            room.worked(JUDGED_WORK * len(names))
            for name in filter(may_see, names):
                found.append(room.encoded(_listed(name, some[name])))
                yield None
            room.expect(IDS_PER_STEP * OBJECT_BYTES)
            yield None
    except KafkaError as error:
        return ListTransactionsResponse(
            error_code=error.code, unknown_state_filters=[], transaction_states=[]
        )
    return ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=found)


def _listed(transactional_id: str, transaction: Transaction) -> TransactionState:
    return TransactionState(
        transactional_id=transactional_id,
        producer_id=transaction.producer_id,
        transaction_state=transaction.state.shown,
    )
