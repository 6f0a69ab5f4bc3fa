"""DeleteGroups (42): deletes groups without members (KIP-229).

Versions: 2 flexible; 3 a message for each group (KIP-1331).
"""

from trimaran.wire.codec.declarations import Struct, field, int16, int32, string
from trimaran.wire.schema import Message, request, response


@request(key=42, versions="0-3", flexible="2+")
class DeleteGroupsRequest(Message):
    groups_names: list[string]


class DeletableGroupResult(Struct):
    group_id: string
    error_code: int16 = 0
    error_message: string | None = field("3+", default=None, ignorable=True)


@response(key=42, versions="0-3", flexible="2+")
class DeleteGroupsResponse(Message):
    throttle_time_ms: int32 = 0
    results: list[DeletableGroupResult]
