"""CreateAcls (30): decided by the controller, but for ACLs about what is not enforced here."""

from __future__ import annotations

from broker.handlers.context import Context
from quorum.controller.acls import fail_create
from quorum.serving.unenforced_acls import enforced_part
from wire.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from wire.outgoing import Outgoing
from wire.transport.access import BY_CONTROLLER
from wire.transport.calls import Call
from wire.transport.heavy import MANY_ELEMENTS_MAX, run_apart
from wire.transport.registry import handles


@handles(
    CreateAclsRequest,
    versions="0-3",
    access=BY_CONTROLLER,
    on_error=fail_create,
    elements_max=MANY_ELEMENTS_MAX,
)
async def create_acls(
    request: CreateAclsRequest, ctx: Context, call: Call
) -> Outgoing | CreateAclsResponse:
    if ctx.authorizer is None:
        return await ctx.forwarder.forward_request(request, call)
    judged, merge = (
        await run_apart(enforced_part, request) if call.heavy else enforced_part(request)
    )
    if len(judged.creations) == len(request.creations):
        return await ctx.forwarder.forward_request(request, call)
    return merge(await ctx.forwarder.forward(judged, call, CreateAclsResponse))
