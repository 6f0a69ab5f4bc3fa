"""BrokerHeartbeat (63): extends a broker's lease, fences and unfences the broker, lets it shut down (KIP-631)."""

from __future__ import annotations

from functools import partial

import trio

from trimaran.node.replicated.state_machine import Result
from trimaran.node.runtime.steps import Steps
from trimaran.quorum.controller.active_controller import ActiveController
from trimaran.quorum.controller.context import ControllerContext
from trimaran.quorum.controller.nodes.brokers import heartbeat
from trimaran.quorum.controller.nodes.leases import Lease
from trimaran.quorum.controller.partitions.broker_changes import check_broker_epoch
from trimaran.wire.identity import NO_OFFSET
from trimaran.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import cluster
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import FEW_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Handling


@handles(
    BrokerHeartbeatRequest,
    versions="0-2",
    access=cluster(Operation.CLUSTER_ACTION),
    elements_max=FEW_ELEMENTS_MAX,
)
def broker_heartbeat(
    request: BrokerHeartbeatRequest, ctx: ControllerContext, call: Call
) -> Handling[BrokerHeartbeatResponse]:
    _extend(request, ctx.controller.active())  # a broker that waits for its response is also alive
    return ctx.controller.submit_operation(partial(_beat, request, ctx, call))


def _extend(request: BrokerHeartbeatRequest, active: ActiveController) -> Lease:
    check_broker_epoch(active.image, request.broker_id, request.broker_epoch)
    return active.leases.extend(request.broker_id, request.broker_epoch, trio.current_time())


def _beat(
    request: BrokerHeartbeatRequest, ctx: ControllerContext, call: Call, active: ActiveController
) -> Steps[BrokerHeartbeatResponse]:
    lease, image = _extend(request, active), active.image
    result = yield from heartbeat(
        request,
        active.state,
        lease,
        registered_at=active.registered_at(image.cluster.brokers[request.broker_id]),
        lowest_active_offset=active.leases.lowest_active_offset(image),
    )
    reply = result.response
    response = BrokerHeartbeatResponse(
        is_caught_up=reply.is_caught_up,
        is_fenced=reply.is_fenced,
        should_shut_down=reply.should_shut_down,
    )
    yield from active.write(Result(result.records, response, atomic=False))
    lease.metadata_offset = request.current_metadata_offset
    if reply.is_fenced:
        lease.shutdown_offset, lease.draining = NO_OFFSET, False
    elif reply.shutting_down and lease.shutdown_offset < 0:
        lease.shutdown_offset = active.next_offset - 1
        lease.draining = True
        active.draining.set()
    elif result.records and active.state.index.leaderless:
        active.leaders_wanted.set()  # the task elects leaders for partitions beyond this step's limit
    if reply.should_shut_down:
        active.leases.end(request.broker_id)  # the broker may return immediately
    else:
        ctx.controller.watch(call.connection, request.broker_id, request.broker_epoch)
    return response
