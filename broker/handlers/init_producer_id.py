"""InitProducerId (22): gives an idempotent producer its id.

Versions: 3 tells the producer's present id and epoch (KIP-360); without transactions a new id is always right.
Not done: transactional producers. TRANSACTIONAL_ID_AUTHORIZATION_FAILED is the one error after which every client,
librdkafka too, ends at once; what is wrong they hear from FindCoordinator, which they ask before.
"""

from __future__ import annotations

from broker.handlers.context import Context
from wire.errors import ErrorCode, KafkaError
from wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from wire.security.acls import Operation
from wire.transport.access import cluster, transactional_ids
from wire.transport.calls import Call
from wire.transport.registry import handles


@handles(
    InitProducerIdRequest,
    versions="0-5",
    access=(
        transactional_ids(Operation.WRITE, "transactional_id"),
        cluster(Operation.IDEMPOTENT_WRITE).in_handler(
            "without a transactional id; WRITE on a topic is enough, too"
        ),
    ),
)
async def init_producer_id(
    request: InitProducerIdRequest, ctx: Context, _call: Call
) -> InitProducerIdResponse:
    if request.transactional_id is not None:
        code = ErrorCode.INVALID_REQUEST
        if request.transactional_id:
            code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return InitProducerIdResponse(error_code=code, producer_epoch=-1)
    try:
        producer_id = await ctx.producer_ids.take()
    except KafkaError as error:
        return InitProducerIdResponse(error_code=error.code, producer_epoch=-1)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
