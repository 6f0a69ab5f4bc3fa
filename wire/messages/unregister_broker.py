"""UnregisterBroker (64): an operator removes a permanently lost broker (KIP-631)."""

from trimaran.wire.codec.declarations import int16, int32, int32_broker_id, string
from trimaran.wire.schema import Message, request, response


@request(key=64, versions="0", flexible="0+")
class UnregisterBrokerRequest(Message):
    broker_id: int32_broker_id


@response(key=64, versions="0", flexible="0+")
class UnregisterBrokerResponse(Message):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = None
