"""CreateAcls (30): decided by the controller, but for ACLs about what is not enforced here."""

from __future__ import annotations

from broker.handlers.context import Context
from quorum.controller.acls import fail_create
from quorum.serving.unenforced_acls import enforced_part
from wire.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from wire.outgoing import Outgoing
from wire.transport.calls import Call
from wire.transport.registry import handles


@handles(CreateAclsRequest, versions="0-3", on_error=fail_create)
async def create_acls(
    request: CreateAclsRequest, ctx: Context, call: Call
) -> Outgoing | CreateAclsResponse:
    enforced, merge = enforced_part(request)
    if ctx.authorizer is None or len(enforced.creations) == len(request.creations):
        return await ctx.forwarder.pass_on(request, call)
    return merge(await ctx.forwarder.forward(enforced, call, CreateAclsResponse))
