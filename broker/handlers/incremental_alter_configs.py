"""IncrementalAlterConfigs (44): decided by the controller, but for this broker's log levels."""

from __future__ import annotations

from broker.config_changes import answered_here
from broker.context import Context
from quorum.authorization import may
from quorum.controller.configs import fail_incremental, incremental_response, resource_of
from quorum.metadata.acls import Operation
from quorum.metadata.authorizer import Action
from wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from wire.transport.calls import Call
from wire.transport.registry import handles


@handles(IncrementalAlterConfigsRequest, versions="0-1", on_error=fail_incremental)
async def incremental_alter_configs(
    request: IncrementalAlterConfigsRequest, ctx: Context, call: Call
) -> IncrementalAlterConfigsResponse:
    answered = answered_here(
        request.resources,
        ctx.node_id,
        validate_only=request.validate_only,
        may_alter_loggers=may(ctx, call.connection, Action(Operation.ALTER_CONFIGS)),
    )
    left = [one for one in request.resources if resource_of(one) not in answered]
    own = incremental_response(answered)
    if left:
        response = await ctx.forwarder.forward(request.replace(resources=left), call)
        assert isinstance(response, IncrementalAlterConfigsResponse)
        own.responses.extend(response.responses)
    return own
