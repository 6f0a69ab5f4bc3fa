"""UnregisterController (94): removes the registration of a controller that will not return (KIP-1312)."""

from __future__ import annotations

from trimaran.quorum.controller.context import ControllerContext
from trimaran.quorum.controller.nodes.controllers import unregister_controller as decide
from trimaran.wire.messages.unregister_controller import (
    UnregisterControllerRequest,
    UnregisterControllerResponse,
)
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import cluster
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Handling


@handles(UnregisterControllerRequest, versions="0", access=cluster(Operation.ALTER))
def unregister_controller(
    request: UnregisterControllerRequest, ctx: ControllerContext, _call: Call
) -> Handling[UnregisterControllerResponse]:
    return ctx.controller.submit(
        lambda active: decide(request.controller_id, active.image, ctx.config.node_id)
    )
