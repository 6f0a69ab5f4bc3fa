"""ControllerRegistration (70): records the endpoints and features of a controller (KIP-919)."""

from __future__ import annotations

from trimaran.quorum.controller.context import ControllerContext
from trimaran.quorum.controller.nodes.controllers import register_controller
from trimaran.wire.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import cluster
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import FEW_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Handling


@handles(
    ControllerRegistrationRequest,
    versions="0",
    access=cluster(Operation.CLUSTER_ACTION),
    elements_max=FEW_ELEMENTS_MAX,
)
def controller_registration(
    request: ControllerRegistrationRequest, ctx: ControllerContext, _call: Call
) -> Handling[ControllerRegistrationResponse]:
    return ctx.controller.submit(lambda active: register_controller(request, active.image))
