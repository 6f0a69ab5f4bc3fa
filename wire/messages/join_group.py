"""JoinGroup (11): a member joins a classic group, or rejoins for a rebalance.

Versions: 1 the rebalance timeout; 2 throttle time; 4 members must have an id (KIP-394); 5 static
members (KIP-345); 6 flexible; 7 the protocol type (KIP-559); 8 a reason (KIP-800); 9 leaders may
skip the assignment (KIP-814).
"""

from trimaran.wire.codec.declarations import Struct, boolean, data, field, int16, int32, string
from trimaran.wire.schema import Message, request, response


class JoinGroupRequestProtocol(Struct):
    name: string
    metadata: data


@request(key=11, versions="0-9", flexible="6+")
class JoinGroupRequest(Message):
    group_id: string
    session_timeout_ms: int32
    rebalance_timeout_ms: int32 = field("1+", default=-1, ignorable=True)
    member_id: string
    group_instance_id: string | None = field("5+", default=None)
    protocol_type: string
    protocols: list[JoinGroupRequestProtocol]
    reason: string | None = field("8+", default=None, ignorable=True)


class JoinGroupResponseMember(Struct):
    member_id: string
    group_instance_id: string | None = field("5+", default=None, ignorable=True)
    metadata: data


@response(key=11, versions="0-9", flexible="6+")
class JoinGroupResponse(Message):
    throttle_time_ms: int32 = field("2+", default=0, ignorable=True)
    error_code: int16 = 0
    generation_id: int32 = -1
    protocol_type: string | None = field("7+", default=None, ignorable=True)
    protocol_name: string | None = field(nullable="7+")
    leader: string
    skip_assignment: boolean = field("9+", default=False)
    member_id: string
    members: list[JoinGroupResponseMember]
