"""SyncGroup (14): returns a member's assignment; the leader's request has all assignments. Answered when they are
stored.

Versions: 3 static members (KIP-345), 5 protocol type and name, which are mandatory from then on (KIP-559).
"""

from __future__ import annotations

from trimaran.broker.groups.classic.operation import sync_error
from trimaran.broker.handlers.context import GroupContext
from trimaran.broker.handlers.loaded_groups import loaded
from trimaran.node.replicated.pending import settled
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import groups
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import MANY_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Handling

PROTOCOL_VERSION = 5


@handles(
    SyncGroupRequest,
    versions="0-5",
    access=groups(Operation.READ, "group_id"),
    elements_max=MANY_ELEMENTS_MAX,
)
def sync_group(
    request: SyncGroupRequest, ctx: GroupContext, call: Call
) -> Handling[SyncGroupResponse]:
    yield from loaded(ctx, (request.group_id,))
    unnamed = request.protocol_type is None or request.protocol_name is None
    if call.header.api_version >= PROTOCOL_VERSION and unnamed:
        return sync_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    try:
        return (yield from settled(ctx.groups.sync(request)))
    except KafkaError as error:
        return sync_error(error.code)
