"""LeaveGroup (13): members leave a classic group.

Versions: 1 throttle time; 3 several members, also static ones (KIP-345); 4 flexible; 5 a reason
(KIP-800).
"""

from trimaran.wire.codec.declarations import Struct, field, int16, int32, string
from trimaran.wire.schema import Message, request, response


class MemberIdentity(Struct):
    member_id: string
    group_instance_id: string | None = None
    reason: string | None = field("5+", default=None, ignorable=True)


@request(key=13, versions="0-5", flexible="4+")
class LeaveGroupRequest(Message):
    group_id: string
    member_id: string = field("0-2", default="")
    members: list[MemberIdentity] = field("3+", factory=list)


class MemberResponse(Struct):
    member_id: string
    group_instance_id: string | None
    error_code: int16 = 0


@response(key=13, versions="0-5", flexible="4+")
class LeaveGroupResponse(Message):
    throttle_time_ms: int32 = field("1+", default=0, ignorable=True)
    error_code: int16 = 0
    members: list[MemberResponse] = field("3+", factory=list)
