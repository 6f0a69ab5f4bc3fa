"""DescribeGroups (15): state and members of classic groups.

Versions: 3 authorized operations (KIP-430), 4 static members, 6 says that a group does not exist (KIP-1043).
Not done: authorization, so that everything is allowed.
"""

from __future__ import annotations

from broker.handlers.context import Context
from quorum.serving.authorized_operations import authorized_operations
from wire.errors import ErrorCode
from wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from wire.security.acls import Operation, ResourceType
from wire.transport.access import groups
from wire.transport.calls import Call
from wire.transport.heavy import PARTITIONS_ELEMENTS_MAX
from wire.transport.registry import handles
from wire.transport.slices import Slices


@handles(
    DescribeGroupsRequest,
    versions="0-6",
    access=groups(Operation.DESCRIBE, "groups.*", "groups"),
    slices=Slices("groups", "groups"),
    elements_max=PARTITIONS_ELEMENTS_MAX,
)
def describe_groups(
    request: DescribeGroupsRequest, ctx: Context, call: Call
) -> DescribeGroupsResponse:
    groups = ctx.groups.describe_groups(request.groups, call.header.api_version)
    if request.include_authorized_operations:
        for group in groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = authorized_operations(
                    ctx, call.connection, ResourceType.GROUP, group.group_id
                )
    return DescribeGroupsResponse(groups=groups)
