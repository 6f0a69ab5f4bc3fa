"""CreateAcls (30): decided by the controller."""

from __future__ import annotations

from broker.handlers.context import Context
from quorum.controller.acls import fail_create
from wire.messages.create_acls import CreateAclsRequest
from wire.outgoing import Outgoing
from wire.transport.calls import Call
from wire.transport.registry import handles


@handles(CreateAclsRequest, versions="0-3", on_error=fail_create)
async def create_acls(request: CreateAclsRequest, ctx: Context, call: Call) -> Outgoing:
    return await ctx.forwarder.pass_on(request, call)
