"""AlterConfigs (33): replaces all configs of resources. The controller decides."""

from __future__ import annotations

from trimaran.broker.handlers.config_changes import altered
from trimaran.broker.handlers.context import AdminContext
from trimaran.quorum.controller.configs.configs import legacy_response
from trimaran.quorum.controller.handlers.alter_configs import alter_configs as declared
from trimaran.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from trimaran.wire.transport.requests.access import BY_CONTROLLER
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.handles import handles_as
from trimaran.wire.transport.scheduling.effects import Handling


@handles_as(declared, access=BY_CONTROLLER)
def alter_configs(
    request: AlterConfigsRequest, ctx: AdminContext, call: Call
) -> Handling[AlterConfigsResponse]:
    return altered(request, ctx, call, legacy_response)
