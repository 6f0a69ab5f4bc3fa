"""DescribeGroups (15): state and members of classic groups.

Versions: 3 authorized operations (KIP-430), 4 static members, 6 says that a group does not exist (KIP-1043).
Not done: authorization, so that everything is allowed.
"""

from __future__ import annotations

from broker.handlers.context import Context
from wire.errors import ErrorCode
from wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from wire.transport.calls import Call
from wire.transport.registry import handles
from wire.transport.slices import Slices

# Bits by `AclOperation`: read 3, delete 6, describe 8, describe configs 10, alter configs 11.
ALL_OPERATIONS = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11


@handles(DescribeGroupsRequest, versions="0-6", slices=Slices("groups", "groups"))
def describe_groups(
    request: DescribeGroupsRequest, ctx: Context, call: Call
) -> DescribeGroupsResponse:
    groups = ctx.groups.describe_groups(request.groups, call.header.api_version)
    if request.include_authorized_operations:
        for group in groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = ALL_OPERATIONS
    return DescribeGroupsResponse(groups=groups)
