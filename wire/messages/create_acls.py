"""CreateAcls (30): adds ACLs (KIP-140).

Versions: 1 pattern types (KIP-290); 2 flexible; 3 user resources (KIP-373).
"""

from trimaran.wire.codec.declarations import Struct, field, int8, int16, int32, string
from trimaran.wire.schema import Message, request, response


class AclCreation(Struct):
    resource_type: int8
    resource_name: string
    resource_pattern_type: int8 = field("1+", default=3)
    principal: string
    host: string
    operation: int8
    permission_type: int8


@request(key=30, versions="0-3", flexible="2+")
class CreateAclsRequest(Message):
    creations: list[AclCreation]


class AclCreationResult(Struct):
    error_code: int16 = 0
    error_message: string | None = None


@response(key=30, versions="0-3", flexible="2+")
class CreateAclsResponse(Message):
    throttle_time_ms: int32 = 0
    results: list[AclCreationResult]
