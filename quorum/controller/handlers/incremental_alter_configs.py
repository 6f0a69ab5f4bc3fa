"""IncrementalAlterConfigs (44): changes configs of topics and brokers. Not done: loggers, groups, client metrics."""

from __future__ import annotations

from functools import partial

from quorum.controller.configs import alter_configs
from quorum.controller.context import ControllerContext
from wire.errors import ErrorCode
from wire.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from wire.transport.calls import Call, Parked
from wire.transport.registry import handles


def _fail(
    request: IncrementalAlterConfigsRequest, code: ErrorCode, message: str
) -> IncrementalAlterConfigsResponse:
    responses = [
        AlterConfigsResourceResponse(
            error_code=code,
            error_message=message,
            resource_type=one.resource_type,
            resource_name=one.resource_name,
        )
        for one in request.resources
    ]
    return IncrementalAlterConfigsResponse(responses=responses)


@handles(IncrementalAlterConfigsRequest, versions="0-1", on_error=_fail)
def incremental_alter_configs(
    request: IncrementalAlterConfigsRequest, ctx: ControllerContext, _call: Call
) -> Parked[IncrementalAlterConfigsResponse]:
    result = alter_configs(request, ctx.controller.reign().image)
    return ctx.controller.submit(result, partial(_fail, request))
