"""DeleteAcls (31): removes the ACLs that match filters (KIP-140).

Versions: 1 pattern types (KIP-290); 2 flexible; 3 user resources (KIP-373).
"""

from trimaran.wire.codec.declarations import Struct, field, int8, int16, int32, string
from trimaran.wire.schema import Message, request, response


class DeleteAclsFilter(Struct):
    resource_type_filter: int8
    resource_name_filter: string | None
    pattern_type_filter: int8 = field("1+", default=3)
    principal_filter: string | None
    host_filter: string | None
    operation: int8
    permission_type: int8


@request(key=31, versions="0-3", flexible="2+")
class DeleteAclsRequest(Message):
    filters: list[DeleteAclsFilter]


class DeleteAclsMatchingAcl(Struct):
    error_code: int16 = 0
    error_message: string | None = None
    resource_type: int8
    resource_name: string
    pattern_type: int8 = field("1+", default=3)
    principal: string
    host: string
    operation: int8
    permission_type: int8


class DeleteAclsFilterResult(Struct):
    error_code: int16 = 0
    error_message: string | None = None
    matching_acls: list[DeleteAclsMatchingAcl]


@response(key=31, versions="0-3", flexible="2+")
class DeleteAclsResponse(Message):
    throttle_time_ms: int32 = 0
    filter_results: list[DeleteAclsFilterResult]
