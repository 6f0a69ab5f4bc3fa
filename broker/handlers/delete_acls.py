"""DeleteAcls (31): decided by the controller."""

from __future__ import annotations

from broker.handlers.context import Context
from quorum.controller.acls import fail_delete
from wire.messages.delete_acls import DeleteAclsRequest
from wire.outgoing import Outgoing
from wire.transport.calls import Call
from wire.transport.heavy import DECISION_ELEMENTS_MAX
from wire.transport.registry import handles


@handles(
    DeleteAclsRequest, versions="0-3", on_error=fail_delete, elements_max=DECISION_ELEMENTS_MAX
)
async def delete_acls(request: DeleteAclsRequest, ctx: Context, call: Call) -> Outgoing:
    return await ctx.forwarder.pass_on(request, call)
