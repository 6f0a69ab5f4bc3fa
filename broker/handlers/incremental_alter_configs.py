"""IncrementalAlterConfigs (44): decided by the controller."""

from __future__ import annotations

from broker.context import Context
from wire.errors import ErrorCode
from wire.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from wire.transport.calls import Call
from wire.transport.registry import handles


def _fail(
    request: IncrementalAlterConfigsRequest, code: ErrorCode, message: str
) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(
                error_code=code,
                error_message=message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource in request.resources
        ]
    )


@handles(IncrementalAlterConfigsRequest, versions="0-1", on_error=_fail)
async def incremental_alter_configs(
    request: IncrementalAlterConfigsRequest, ctx: Context, call: Call
) -> IncrementalAlterConfigsResponse:
    response = await ctx.forwarder.forward(request, call)
    assert isinstance(response, IncrementalAlterConfigsResponse)
    return response
