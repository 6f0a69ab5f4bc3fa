"""DescribeGroups (15): state and members of classic groups.

Versions: 3 authorized operations (KIP-430), 4 static members, 6 says that a group does not exist (KIP-1043).
"""

from __future__ import annotations

from functools import partial

from trimaran.broker.groups.describe import described
from trimaran.broker.handlers.context import Context
from trimaran.broker.handlers.loaded_groups import when_loaded
from trimaran.quorum.serving.authorized_operations import authorized_operations
from trimaran.wire.codec.declarations import EncodedArray
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from trimaran.wire.security.acls import Operation, ResourceType
from trimaran.wire.transport.requests.access import groups
from trimaran.wire.transport.requests.calls import Call, DeferredResponse
from trimaran.wire.transport.requests.elements import PARTITIONS_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.requests.once import Once


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
@when_loaded(lambda request: request.groups, _fail)
def describe_groups(
    request: DescribeGroupsRequest, ctx: Context, call: Call
) -> DeferredResponse[DescribeGroupsResponse]:
    room, version = call.room(), call.header.api_version

    async def one(group_id: str) -> bytes:
        try:
            group, members = ctx.groups.describe_group(group_id, version)
            if request.include_authorized_operations and group.error_code == ErrorCode.NONE:
                group.authorized_operations = authorized_operations(
                    ctx, call, ResourceType.GROUP, group_id
                )
            return await room.encoded_with(group, "members", members)
        except KafkaError as error:
            return room.refusal(described(group_id, "", error.code))

    async def finish() -> DescribeGroupsResponse:
        found = EncodedArray()
        for group_id in request.groups:
            found.append(await one(group_id))
            await room.pause()
        return DescribeGroupsResponse(groups=found)

    return DeferredResponse(finish, on_error=partial(_fail, request))
