"""LeaveGroup (13): removes members from a classic group, at their own or an administrator's request.

Versions: up to 2 one member, and one error for the whole response; 3 many members, including static ones by instance id
(KIP-345).
"""

from __future__ import annotations

from trimaran.broker.handlers.context import GroupContext
from trimaran.broker.handlers.loaded_groups import loaded
from trimaran.wire.errors import KafkaError
from trimaran.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import groups
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import MANY_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Handling

MANY_MEMBERS_VERSION = 3


@handles(
    LeaveGroupRequest,
    versions="0-5",
    access=groups(Operation.READ, "group_id"),
    elements_max=MANY_ELEMENTS_MAX,
)
def leave_group(
    request: LeaveGroupRequest, ctx: GroupContext, call: Call
) -> Handling[LeaveGroupResponse]:
    yield from loaded(ctx, (request.group_id,))
    version = call.header.api_version
    try:
        members = ctx.groups.leave(request, version)
    except KafkaError as error:
        return LeaveGroupResponse(error_code=error.code)
    if version < MANY_MEMBERS_VERSION:
        return LeaveGroupResponse(error_code=members[0].error_code)
    return LeaveGroupResponse(members=members)
