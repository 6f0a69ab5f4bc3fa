"""SyncGroup (14): a member asks for its assignment, the leader brings that of all; answered when it is stored.

Versions: 3 static members (KIP-345), 5 protocol type and name, which must then be there (KIP-559).
"""

from __future__ import annotations

from trimaran.broker.groups.classic.operation import sync_error
from trimaran.broker.handlers.context import Context
from trimaran.broker.handlers.loaded_groups import when_loaded
from trimaran.node.replicated.pending import respond
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import groups
from trimaran.wire.transport.requests.calls import Call, DeferredResponse
from trimaran.wire.transport.requests.elements import MANY_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles

PROTOCOL_VERSION = 5


@handles(
    SyncGroupRequest,
    versions="0-5",
    access=groups(Operation.READ, "group_id"),
    elements_max=MANY_ELEMENTS_MAX,
)
@when_loaded(lambda request: (request.group_id,))
def sync_group(
    request: SyncGroupRequest, ctx: Context, call: Call
) -> SyncGroupResponse | DeferredResponse[SyncGroupResponse]:
    unnamed = request.protocol_type is None or request.protocol_name is None
    if call.header.api_version >= PROTOCOL_VERSION and unnamed:
        return sync_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    try:
        pending = ctx.groups.sync(request)
    except KafkaError as error:
        return sync_error(error.code)
    return respond(pending, lambda response: response, sync_error)
