"""FindCoordinator (10): finds the broker that coordinates a group, a transactional id or share state.

Versions: 1 adds the key's type; 3 flexible; 4 several keys in one request (KIP-699); 5 a new error for transactions; 6
share groups (KIP-932).
"""

from trimaran.wire.codec.declarations import (
    Struct,
    field,
    int8,
    int16,
    int32,
    int32_broker_id,
    string,
)
from trimaran.wire.schema import Message, request, response


@request(key=10, versions="0-6", flexible="3+")
class FindCoordinatorRequest(Message):
    key: string = field("0-3", default="")
    key_type: int8 = field("1+", default=0)
    coordinator_keys: list[string] = field("4+", factory=list)


class Coordinator(Struct):
    key: string
    node_id: int32_broker_id
    host: string
    port: int32
    error_code: int16 = 0
    error_message: string | None = None


@response(key=10, versions="0-6", flexible="3+")
class FindCoordinatorResponse(Message):
    throttle_time_ms: int32 = field("1+", default=0, ignorable=True)
    error_code: int16 = field("0-3", default=0)
    error_message: string | None = field("1-3", default="", ignorable=True)
    node_id: int32_broker_id = field("0-3", default=0)
    host: string = field("0-3", default="")
    port: int32 = field("0-3", default=0)
    coordinators: list[Coordinator] = field("4+", factory=list)
