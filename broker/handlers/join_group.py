"""JoinGroup (11): a member enters a classic group, or enters again for a rebalance; answered when the join phase ends.

Versions: 4 members come with an id (KIP-394), 5 static members (KIP-345), 9 leaders may skip the assignment (KIP-814).
"""

from __future__ import annotations

from trimaran.broker.groups.classic.operation import join_error
from trimaran.broker.groups.limits import MEMBER_BYTES_MAX
from trimaran.broker.handlers.context import Context
from trimaran.broker.handlers.loaded_groups import when_loaded
from trimaran.node.replicated.pending import respond
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from trimaran.wire.security.acls import Operation
from trimaran.wire.text.hosts import java_text
from trimaran.wire.transport.requests.access import groups
from trimaran.wire.transport.requests.calls import Call, DeferredResponse
from trimaran.wire.transport.requests.elements import FEW_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles

NULLABLE_PROTOCOL_NAME_VERSION = 7


def _fail(request: JoinGroupRequest, code: ErrorCode, _message: str) -> JoinGroupResponse:
    response = join_error(code, request.member_id)
    response.protocol_name = ""  # writable in every version
    return response


@handles(
    JoinGroupRequest,
    versions="0-9",
    access=groups(Operation.READ, "group_id"),
    on_error=_fail,
    elements_max=FEW_ELEMENTS_MAX,
)
@when_loaded(lambda request: (request.group_id,), _fail)
def join_group(
    request: JoinGroupRequest, ctx: Context, call: Call
) -> JoinGroupResponse | DeferredResponse[JoinGroupResponse]:
    version = call.header.api_version

    def to_response(response: JoinGroupResponse) -> JoinGroupResponse:
        name = response.protocol_name
        if version < NULLABLE_PROTOCOL_NAME_VERSION:
            response.protocol_name = name or ""
        return response

    member_id = request.member_id

    def refuse(code: ErrorCode) -> JoinGroupResponse:
        return to_response(join_error(code, member_id))

    if sum(len(one.name) + len(one.metadata) for one in request.protocols) > MEMBER_BYTES_MAX:
        return refuse(ErrorCode.INVALID_REQUEST)
    host = f"/{java_text(call.connection.peer[0])}"  # as Java prints an address
    try:
        connection = call.connection
        pending = ctx.groups.join(
            request,
            version,
            call.header.client_id or "",
            host,
            str(connection.principal),
            connection.id,
        )
        connection.on_close(ctx.groups.closing(connection.id))
    except KafkaError as error:
        return refuse(error.code)
    return respond(pending, to_response, refuse)
