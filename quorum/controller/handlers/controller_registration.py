"""ControllerRegistration (70): a controller tells its endpoints and features (KIP-919)."""

from __future__ import annotations

from quorum.controller.context import ControllerContext
from quorum.controller.controllers import register_controller
from wire.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from wire.security.acls import Operation
from wire.transport.access import cluster
from wire.transport.calls import Call, DeferredResponse
from wire.transport.heavy import FEW_ELEMENTS_MAX
from wire.transport.registry import handles


@handles(
    ControllerRegistrationRequest,
    versions="0",
    access=cluster(Operation.CLUSTER_ACTION),
    elements_max=FEW_ELEMENTS_MAX,
)
def controller_registration(
    request: ControllerRegistrationRequest, ctx: ControllerContext, _call: Call
) -> DeferredResponse[ControllerRegistrationResponse]:
    return ctx.controller.submit(lambda active: register_controller(request, active.image))
