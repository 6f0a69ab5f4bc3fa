"""DescribeGroups (15): state and members of classic groups.

Versions: 3 authorized operations (KIP-430), 4 static members, 6 says that a group does not exist (KIP-1043).
"""

from __future__ import annotations

from broker.groups.describe import described
from broker.handlers.context import Context
from broker.handlers.loaded_groups import when_loaded
from quorum.serving.authorized_operations import authorized_operations
from wire.errors import ErrorCode
from wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from wire.security.acls import Operation, ResourceType
from wire.transport.access import groups
from wire.transport.calls import Call
from wire.transport.heavy import PARTITIONS_ELEMENTS_MAX
from wire.transport.registry import handles
from wire.transport.slices import Slices


def _fail(request: DescribeGroupsRequest, code: ErrorCode, _message: str) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(
        groups=[described(group_id, "", code) for group_id in request.groups]
    )


@handles(
    DescribeGroupsRequest,
    versions="0-6",
    access=groups(Operation.DESCRIBE, "groups.*", "groups"),
    on_error=_fail,
    slices=Slices("groups", "groups"),
    elements_max=PARTITIONS_ELEMENTS_MAX,
)
@when_loaded(lambda request: request.groups, _fail)
def describe_groups(
    request: DescribeGroupsRequest, ctx: Context, call: Call
) -> DescribeGroupsResponse:
    groups = ctx.groups.describe_groups(request.groups, call.header.api_version)
    if request.include_authorized_operations:
        for group in groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = authorized_operations(
                    ctx, call, ResourceType.GROUP, group.group_id
                )
    return DescribeGroupsResponse(groups=groups)
