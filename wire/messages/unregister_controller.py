"""UnregisterController (94): an operator removes the registration of a lost controller (KIP-1312)."""

from trimaran.wire.codec.declarations import int16, int32, int32_node_id, string
from trimaran.wire.schema import Message, request, response


@request(key=94, versions="0", flexible="0+")
class UnregisterControllerRequest(Message):
    controller_id: int32_node_id


@response(key=94, versions="0", flexible="0+")
class UnregisterControllerResponse(Message):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None
