"""IncrementalAlterConfigs (44): decided by the controller, but for this broker's log levels."""

from __future__ import annotations

from trimaran.broker.handlers.config_changes import altered
from trimaran.broker.handlers.context import Context
from trimaran.quorum.controller.configs import fail_incremental, incremental_response
from trimaran.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import BY_CONTROLLER, cluster
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import CONFIGS_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles


@handles(
    IncrementalAlterConfigsRequest,
    versions="0-1",
    access=(BY_CONTROLLER, cluster(Operation.ALTER_CONFIGS).in_handler("loggers of this broker")),
    on_error=fail_incremental,
    elements_max=CONFIGS_ELEMENTS_MAX,
)
async def incremental_alter_configs(
    request: IncrementalAlterConfigsRequest, ctx: Context, call: Call
) -> IncrementalAlterConfigsResponse:
    return await altered(request, ctx, call, incremental_response)
