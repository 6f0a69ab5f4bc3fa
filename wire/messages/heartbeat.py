"""Heartbeat (12): a member of a classic group reports that it is alive, and is notified of rebalances.

Versions: 1 throttle time; 3 static members (KIP-345); 4 flexible.
"""

from trimaran.wire.codec.declarations import field, int16, int32, string
from trimaran.wire.schema import Message, request, response


@request(key=12, versions="0-4", flexible="4+")
class HeartbeatRequest(Message):
    group_id: string
    generation_id: int32
    member_id: string
    group_instance_id: string | None = field("3+", default=None)


@response(key=12, versions="0-4", flexible="4+")
class HeartbeatResponse(Message):
    throttle_time_ms: int32 = field("1+", default=0, ignorable=True)
    error_code: int16 = 0
