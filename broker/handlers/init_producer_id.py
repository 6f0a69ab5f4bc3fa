"""InitProducerId (22): returns the id and epoch of an idempotent or transactional producer; fences the previous one.

Versions: 3 the producer's current id and epoch in the request (KIP-360), 4 PRODUCER_FENCED (KIP-588), 5 transactions of
KIP-890.
"""

from __future__ import annotations

from trimaran.broker.handlers.context import TransactionContext
from trimaran.node.replicated.state_machine import Producer
from trimaran.quorum.metadata.authorizer import Action
from trimaran.quorum.serving.authorization import may, may_somewhere
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ProducerEpoch, ProducerId
from trimaran.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from trimaran.wire.security.acls import Operation, ResourceType
from trimaran.wire.transport.requests.access import cluster, transactional_ids
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Handling, Wait

PRODUCER_FENCED_VERSION = 4


def _fail(
    _request: InitProducerIdRequest, code: ErrorCode, _message: str
) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_epoch=NO_PRODUCER_EPOCH)


@handles(
    InitProducerIdRequest,
    versions="0-5",
    access=(
        transactional_ids(Operation.WRITE, "transactional_id"),
        cluster(Operation.IDEMPOTENT_WRITE).in_handler(
            "without a transactional id; WRITE on a topic is enough, too"
        ),
    ),
    on_error=_fail,
)
def init_producer_id(
    request: InitProducerIdRequest, ctx: TransactionContext, call: Call
) -> Handling[InitProducerIdResponse]:
    try:
        _check_idempotent(request, ctx, call)
        producer = yield from _producer(request, ctx)
    except KafkaError as error:
        code = error.code
        if code is ErrorCode.PRODUCER_FENCED and call.header.api_version < PRODUCER_FENCED_VERSION:
            code = ErrorCode.INVALID_PRODUCER_EPOCH
        return _fail(request, code, "")
    return InitProducerIdResponse(producer_id=producer.id, producer_epoch=producer.epoch)


def _check_idempotent(request: InitProducerIdRequest, ctx: TransactionContext, call: Call) -> None:
    """Raises KafkaError CLUSTER_AUTHORIZATION_FAILED if the client may not write to any topic (KIP-679)."""
    if request.transactional_id is not None:
        return
    on_cluster = Action(Operation.IDEMPOTENT_WRITE)
    if not (
        may(ctx, call, on_cluster, asked_for=False)
        or may_somewhere(ctx, call, Operation.WRITE, ResourceType.TOPIC)
    ):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def _producer(request: InitProducerIdRequest, ctx: TransactionContext) -> Handling[Producer]:
    known = Producer(request.producer_id, request.producer_epoch)
    if (known.id == NO_PRODUCER_ID) != (known.epoch == NO_PRODUCER_EPOCH):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "a producer id without its epoch, or an epoch alone"
        )
    if request.transactional_id is None:
        return Producer(ProducerId((yield Wait(ctx.producer_ids.take))), ProducerEpoch(0))
    return (
        yield from ctx.transactions.initializing(
            request.transactional_id,
            request.transaction_timeout_ms,
            None if known.id == NO_PRODUCER_ID else known,
        )
    )
