"""DeleteAcls (31): decided by the controller."""

from __future__ import annotations

from broker.handlers.context import Context
from quorum.controller.acls import fail_delete
from wire.messages.delete_acls import DeleteAclsRequest
from wire.outgoing import Outgoing
from wire.transport.access import BY_CONTROLLER
from wire.transport.calls import Call
from wire.transport.registry import handles


@handles(DeleteAclsRequest, versions="0-3", access=BY_CONTROLLER, on_error=fail_delete)
async def delete_acls(request: DeleteAclsRequest, ctx: Context, call: Call) -> Outgoing:
    return await ctx.forwarder.pass_on(request, call)
