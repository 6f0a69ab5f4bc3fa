"""IncrementalAlterConfigs (44): changes single configs of resources. The controller decides, except for this broker's
log levels.
"""

from __future__ import annotations

from trimaran.broker.handlers.config_changes import altered
from trimaran.broker.handlers.context import AdminContext
from trimaran.quorum.controller.configs.configs import incremental_response
from trimaran.quorum.controller.handlers.incremental_alter_configs import (
    incremental_alter_configs as declared,
)
from trimaran.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import BY_CONTROLLER, cluster
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.handles import handles_as
from trimaran.wire.transport.scheduling.effects import Handling


@handles_as(
    declared,
    access=(BY_CONTROLLER, cluster(Operation.ALTER_CONFIGS).in_handler("loggers of this broker")),
)
def incremental_alter_configs(
    request: IncrementalAlterConfigsRequest, ctx: AdminContext, call: Call
) -> Handling[IncrementalAlterConfigsResponse]:
    return altered(request, ctx, call, incremental_response)
