"""DescribeGroups (15): state and members of classic groups.

Versions: 3 authorized operations (KIP-430), 4 static members, 6 an error for a group that does not exist (KIP-1043).
"""

from __future__ import annotations

from trimaran.broker.groups.classic.describe import described
from trimaran.broker.handlers.context import GroupContext
from trimaran.broker.handlers.described_groups import described_groups
from trimaran.broker.handlers.loaded_groups import loaded
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import groups
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import PARTITIONS_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.requests.once import Once
from trimaran.wire.transport.scheduling.effects import Handling


def _fail(request: DescribeGroupsRequest, code: ErrorCode, _message: str) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(
        groups=[described(group_id, "", code) for group_id in request.groups]
    )


@handles(
    DescribeGroupsRequest,
    versions="0-6",
    access=groups(Operation.DESCRIBE, "groups.*", "groups"),
    on_error=_fail,
    elements_max=PARTITIONS_ELEMENTS_MAX,
    once=Once("groups"),
)
def describe_groups(
    request: DescribeGroupsRequest, ctx: GroupContext, call: Call
) -> Handling[DescribeGroupsResponse]:
    yield from loaded(ctx, request.groups)
    version = call.header.api_version
    found = yield from described_groups(
        request.groups,
        ctx,
        call,
        lambda group_id: ctx.groups.describe_group(group_id, version),
        lambda group_id, code, _message: described(group_id, "", code),
        with_operations=request.include_authorized_operations,
    )
    return DescribeGroupsResponse(groups=found)
