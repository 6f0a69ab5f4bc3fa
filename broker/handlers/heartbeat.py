"""Heartbeat (12): keeps a member of a classic group alive; the response may request a rejoin.

Versions: 3 static members (KIP-345).
"""

from __future__ import annotations

from trimaran.broker.handlers.context import GroupContext
from trimaran.wire.errors import KafkaError
from trimaran.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import groups
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.handles import handles


@handles(HeartbeatRequest, versions="0-4", access=groups(Operation.READ, "group_id"))
def heartbeat(request: HeartbeatRequest, ctx: GroupContext, _call: Call) -> HeartbeatResponse:
    try:
        return HeartbeatResponse(error_code=ctx.groups.heartbeat(request))
    except KafkaError as error:
        return HeartbeatResponse(error_code=error.code)
