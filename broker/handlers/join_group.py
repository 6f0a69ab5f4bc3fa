"""JoinGroup (11): adds a member to a classic group, or rejoins it for a rebalance; answered when the join phase ends.

Versions: 4 members must send an id (KIP-394), 5 static members (KIP-345), 9 leaders may skip the assignment (KIP-814).
"""

from __future__ import annotations

from trimaran.broker.groups.classic.operation import join_error
from trimaran.broker.groups.limits import MEMBER_BYTES_MAX
from trimaran.broker.handlers.context import GroupContext
from trimaran.broker.handlers.loaded_groups import loaded
from trimaran.node.replicated.pending import settled
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import groups
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import FEW_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Handling

NULLABLE_PROTOCOL_NAME_VERSION = 7


def _fail(request: JoinGroupRequest, code: ErrorCode, _message: str) -> JoinGroupResponse:
    response = join_error(code, request.member_id)
    response.protocol_name = ""  # every version can encode this
    return response


@handles(
    JoinGroupRequest,
    versions="0-9",
    access=groups(Operation.READ, "group_id"),
    on_error=_fail,
    elements_max=FEW_ELEMENTS_MAX,
)
def join_group(
    request: JoinGroupRequest, ctx: GroupContext, call: Call
) -> Handling[JoinGroupResponse]:
    yield from loaded(ctx, (request.group_id,))
    try:
        response = yield from _joined(request, ctx, call)
    except KafkaError as error:
        response = join_error(error.code, request.member_id)
    if call.header.api_version < NULLABLE_PROTOCOL_NAME_VERSION:
        response.protocol_name = response.protocol_name or ""
    return response


def _joined(
    request: JoinGroupRequest, ctx: GroupContext, call: Call
) -> Handling[JoinGroupResponse]:
    """Returns the response when the join phase has ended. Raises KafkaError if the member is refused."""
    given = sum(len(protocol.name) + len(protocol.metadata) for protocol in request.protocols)
    if given > MEMBER_BYTES_MAX:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    connection = call.connection
    pending = ctx.groups.join(
        request,
        call.header.api_version,
        call.header.client_id,
        f"/{connection.peer_text}",
        str(connection.principal),
        connection.id,
    )
    connection.on_close(ctx.groups.closing(connection.id))
    return (yield from settled(pending))
