"""UnregisterBroker (64): removes a broker that will not return, at an operator's request."""

from __future__ import annotations

from trimaran.node.runtime.steps import Steps
from trimaran.quorum.controller.active_controller import ActiveController
from trimaran.quorum.controller.context import ControllerContext
from trimaran.quorum.controller.nodes.brokers import unregister_broker as decide
from trimaran.wire.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import cluster
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Handling


@handles(UnregisterBrokerRequest, versions="0", access=cluster(Operation.ALTER))
def unregister_broker(
    request: UnregisterBrokerRequest, ctx: ControllerContext, _call: Call
) -> Handling[UnregisterBrokerResponse]:
    def unregister(active: ActiveController) -> Steps[UnregisterBrokerResponse]:
        result = yield from decide(active.state, request.broker_id)
        response = yield from active.write(result)
        active.leases.end(request.broker_id)
        return response

    return ctx.controller.submit_operation(unregister)
