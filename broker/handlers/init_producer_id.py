"""InitProducerId (22): gives an idempotent producer its id.

Versions: 3 tells the producer's present id and epoch (KIP-360); without transactions a new id is always right.
Not done: transactional producers (UNSUPPORTED_VERSION tells the client so at once).
"""

from __future__ import annotations

from broker.handlers.context import Context
from wire.errors import ErrorCode, KafkaError
from wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from wire.transport.calls import Call
from wire.transport.registry import handles


@handles(InitProducerIdRequest, versions="0-5")
async def init_producer_id(
    request: InitProducerIdRequest, ctx: Context, _call: Call
) -> InitProducerIdResponse:
    if request.transactional_id is not None:
        code = (
            ErrorCode.UNSUPPORTED_VERSION if request.transactional_id else ErrorCode.INVALID_REQUEST
        )
        return InitProducerIdResponse(error_code=code, producer_epoch=-1)
    try:
        producer_id = await ctx.producer_ids.take()
    except KafkaError as error:
        return InitProducerIdResponse(error_code=error.code, producer_epoch=-1)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
