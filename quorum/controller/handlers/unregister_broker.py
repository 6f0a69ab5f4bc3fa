"""UnregisterBroker (64): an operator removes a broker that will not come back."""

from __future__ import annotations

from node.runtime.deferred import Deferred
from node.runtime.steps import Steps
from quorum.controller.active_controller import ActiveController
from quorum.controller.brokers import unregister_broker as decide
from quorum.controller.context import ControllerContext
from wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from wire.security.acls import Operation
from wire.transport.access import cluster
from wire.transport.calls import Call, DeferredResponse
from wire.transport.registry import handles


@handles(UnregisterBrokerRequest, versions="0", access=cluster(Operation.ALTER))
def unregister_broker(
    request: UnregisterBrokerRequest, ctx: ControllerContext, _call: Call
) -> DeferredResponse[UnregisterBrokerResponse]:
    def unregister(active: ActiveController) -> Steps[Deferred[UnregisterBrokerResponse]]:
        result = yield from decide(active.state, request.broker_id)
        deferred = yield from active.write(result)
        active.leases.end(request.broker_id)
        return deferred

    return ctx.controller.submit_operation(unregister)
