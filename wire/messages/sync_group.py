"""SyncGroup (14): the leader of a classic group sends the assignment, and all members receive theirs.

Versions: 1 throttle time; 3 static members (KIP-345); 4 flexible; 5 protocol type and name
(KIP-559).
"""

from trimaran.wire.codec.declarations import Struct, data, field, int16, int32, string
from trimaran.wire.schema import Message, request, response


class SyncGroupRequestAssignment(Struct):
    member_id: string
    assignment: data


@request(key=14, versions="0-5", flexible="4+")
class SyncGroupRequest(Message):
    group_id: string
    generation_id: int32
    member_id: string
    group_instance_id: string | None = field("3+", default=None)
    protocol_type: string | None = field("5+", default=None, ignorable=True)
    protocol_name: string | None = field("5+", default=None, ignorable=True)
    assignments: list[SyncGroupRequestAssignment]


@response(key=14, versions="0-5", flexible="4+")
class SyncGroupResponse(Message):
    throttle_time_ms: int32 = field("1+", default=0, ignorable=True)
    error_code: int16 = 0
    protocol_type: string | None = field("5+", default=None, ignorable=True)
    protocol_name: string | None = field("5+", default=None, ignorable=True)
    assignment: data
