"""AllocateProducerIds (67): gives a broker the next block of producer ids (KIP-730)."""

from __future__ import annotations

from quorum.controller.context import ControllerContext
from quorum.controller.producer_ids import allocate_producer_ids as decide
from wire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from wire.security.acls import Operation
from wire.transport.access import cluster
from wire.transport.calls import Call, DeferredResponse
from wire.transport.registry import handles


@handles(AllocateProducerIdsRequest, versions="0", access=cluster(Operation.CLUSTER_ACTION))
def allocate_producer_ids(
    request: AllocateProducerIdsRequest, ctx: ControllerContext, _call: Call
) -> DeferredResponse[AllocateProducerIdsResponse]:
    return ctx.controller.submit(lambda active: decide(request, active.image))
