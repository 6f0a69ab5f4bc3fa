"""EndTxn (26): commits or aborts a transaction; answered when that is decided for good, the markers follow.

Versions: 2 PRODUCER_FENCED (KIP-588), 4 TRANSACTION_ABORTABLE, 5 bumps the epoch and answers the next producer
(KIP-890). Source: `KafkaApis.handleEndTxnRequest`.
"""

from __future__ import annotations

from trimaran.broker.handlers.context import TransactionContext
from trimaran.broker.transactions.transaction import EPOCH_BUMP_VERSION, Transaction
from trimaran.node.replicated.pending import respond
from trimaran.node.replicated.state_machine import Producer
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import ProducerEpoch, ProducerId
from trimaran.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import transactional_ids
from trimaran.wire.transport.requests.calls import Call, DeferredResponse
from trimaran.wire.transport.requests.handles import handles

PRODUCER_FENCED_VERSION = 2
BUMPING_VERSION = 5


@handles(
    EndTxnRequest,
    versions="0-5",
    access=transactional_ids(Operation.WRITE, "transactional_id"),
)
def end_txn(
    request: EndTxnRequest, ctx: TransactionContext, call: Call
) -> EndTxnResponse | DeferredResponse[EndTxnResponse]:
    version = call.header.api_version
    who = (
        request.transactional_id,
        Producer(ProducerId(request.producer_id), ProducerEpoch(request.producer_epoch)),
    )
    is_commit = request.committed
    client_version = EPOCH_BUMP_VERSION if version >= BUMPING_VERSION else 0

    def told(decided: Transaction) -> EndTxnResponse:
        producer = decided.told_producer
        return EndTxnResponse(producer_id=producer.id, producer_epoch=producer.epoch)

    def refuse(code: ErrorCode) -> EndTxnResponse:
        if code is ErrorCode.PRODUCER_FENCED and version < PRODUCER_FENCED_VERSION:
            code = ErrorCode.INVALID_PRODUCER_EPOCH
        return EndTxnResponse(error_code=code)

    async def finish() -> EndTxnResponse:
        end = ctx.transactions.end
        try:
            return told(await end(*who, is_commit=is_commit, client_version=client_version))
        except KafkaError as error:
            return refuse(error.code)

    if not call.connection.owes:
        pending = ctx.transactions.end_now(*who, is_commit=is_commit, client_version=client_version)
        if pending is not None:
            return respond(pending, told, refuse)
    return DeferredResponse(finish)
