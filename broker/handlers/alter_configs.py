"""AlterConfigs (33): replaces all configs of resources; decided by the controller."""

from __future__ import annotations

from broker.config_changes import answered_here
from broker.context import Context
from quorum.authorization import may
from quorum.controller.configs import fail_legacy, legacy_response, resource_of
from quorum.metadata.acls import Operation
from quorum.metadata.authorizer import Action
from wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from wire.transport.calls import Call
from wire.transport.registry import handles


@handles(AlterConfigsRequest, versions="0-2", on_error=fail_legacy)
async def alter_configs(
    request: AlterConfigsRequest, ctx: Context, call: Call
) -> AlterConfigsResponse:
    answered = answered_here(
        request.resources,
        ctx.node_id,
        validate_only=request.validate_only,
        may_alter_loggers=may(ctx, call.connection, Action(Operation.ALTER_CONFIGS)),
    )
    left = [one for one in request.resources if resource_of(one) not in answered]
    own = legacy_response(answered)
    if left:
        response = await ctx.forwarder.forward(request.replace(resources=left), call)
        assert isinstance(response, AlterConfigsResponse)
        own.responses.extend(response.responses)
    return own
