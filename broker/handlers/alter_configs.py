"""AlterConfigs (33): replaces all configs of resources; decided by the controller."""

from __future__ import annotations

from broker.handlers.config_changes import altered
from broker.handlers.context import Context
from quorum.controller.configs import fail_legacy, legacy_response
from wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from wire.transport.access import BY_CONTROLLER
from wire.transport.calls import Call
from wire.transport.heavy import CONFIGS_ELEMENTS_MAX
from wire.transport.registry import handles


@handles(
    AlterConfigsRequest,
    versions="0-2",
    access=BY_CONTROLLER,
    on_error=fail_legacy,
    elements_max=CONFIGS_ELEMENTS_MAX,
)
async def alter_configs(
    request: AlterConfigsRequest, ctx: Context, call: Call
) -> AlterConfigsResponse:
    return await altered(request, ctx, call, legacy_response)
