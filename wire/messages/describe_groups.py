"""DescribeGroups (15): state and members of classic groups.

Versions: 1 throttle time; 3 authorized operations (KIP-430); 4 static members (KIP-345); 5
flexible; 6 an error message (KIP-1043).
"""

from trimaran.wire.codec.declarations import Struct, boolean, data, field, int16, int32, string
from trimaran.wire.schema import Message, request, response


@request(key=15, versions="0-6", flexible="5+")
class DescribeGroupsRequest(Message):
    groups: list[string]
    include_authorized_operations: boolean = field("3+", default=False)


class DescribedGroupMember(Struct):
    member_id: string
    group_instance_id: string | None = field("4+", default=None, ignorable=True)
    client_id: string
    client_host: string
    member_metadata: data
    member_assignment: data


class DescribedGroup(Struct):
    error_code: int16 = 0
    error_message: string | None = field("6+", default=None)
    group_id: string
    group_state: string
    protocol_type: string
    protocol_data: string
    members: list[DescribedGroupMember]
    authorized_operations: int32 = field("3+", default=-2147483648)


@response(key=15, versions="0-6", flexible="5+")
class DescribeGroupsResponse(Message):
    throttle_time_ms: int32 = field("1+", default=0, ignorable=True)
    groups: list[DescribedGroup]
