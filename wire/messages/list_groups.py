"""ListGroups (16): lists the groups that a broker coordinates.

Versions: 1 throttle time; 3 flexible; 4 filters by state (KIP-518); 5 by type (KIP-848).
"""

from trimaran.wire.codec.declarations import Struct, field, int16, int32, string
from trimaran.wire.schema import Message, request, response


@request(key=16, versions="0-5", flexible="3+")
class ListGroupsRequest(Message):
    states_filter: list[string] = field("4+", factory=list)
    types_filter: list[string] = field("5+", factory=list)


class ListedGroup(Struct):
    group_id: string
    protocol_type: string
    group_state: string = field("4+", default="", ignorable=True)
    group_type: string = field("5+", default="", ignorable=True)


@response(key=16, versions="0-5", flexible="3+")
class ListGroupsResponse(Message):
    throttle_time_ms: int32 = field("1+", default=0, ignorable=True)
    error_code: int16 = 0
    groups: list[ListedGroup]
