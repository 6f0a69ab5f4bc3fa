"""AllocateProducerIds (67): gives a broker the next block of producer ids (KIP-730)."""

from __future__ import annotations

from trimaran.quorum.controller.context import ControllerContext
from trimaran.quorum.controller.nodes.producer_ids import allocate_producer_ids as decide
from trimaran.wire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import cluster
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Handling


@handles(AllocateProducerIdsRequest, versions="0", access=cluster(Operation.CLUSTER_ACTION))
def allocate_producer_ids(
    request: AllocateProducerIdsRequest, ctx: ControllerContext, _call: Call
) -> Handling[AllocateProducerIdsResponse]:
    return ctx.controller.submit(lambda active: decide(request, active.image))
