"""EndTxn (26): commits or aborts a transaction; answered when the decision is final; the markers are written
afterwards.

Versions: 2 PRODUCER_FENCED (KIP-588), 4 TRANSACTION_ABORTABLE, 5 bumps the epoch and returns the new producer id and
epoch (KIP-890). Source: `KafkaApis.handleEndTxnRequest`.
"""

from __future__ import annotations

from trimaran.broker.handlers.context import TransactionContext
from trimaran.broker.transactions.transaction import EPOCH_BUMP_VERSION
from trimaran.node.replicated.state_machine import Producer
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import transactional_ids
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Handling

PRODUCER_FENCED_VERSION = 2
BUMPING_VERSION = 5


@handles(
    EndTxnRequest,
    versions="0-5",
    access=transactional_ids(Operation.WRITE, "transactional_id"),
)
def end_txn(
    request: EndTxnRequest, ctx: TransactionContext, call: Call
) -> Handling[EndTxnResponse]:
    version = call.header.api_version
    try:
        decided = yield from ctx.transactions.ending(
            request.transactional_id,
            Producer(request.producer_id, request.producer_epoch),
            is_commit=request.committed,
            client_version=EPOCH_BUMP_VERSION if version >= BUMPING_VERSION else 0,
        )
    except KafkaError as error:
        code = error.code
        if code is ErrorCode.PRODUCER_FENCED and version < PRODUCER_FENCED_VERSION:
            code = ErrorCode.INVALID_PRODUCER_EPOCH
        return EndTxnResponse(error_code=code)
    producer = decided.response_producer
    return EndTxnResponse(producer_id=producer.id, producer_epoch=producer.epoch)
