"""AlterPartition (56): changes the ISR of partitions for their leader (KIP-497, KIP-841, KIP-903)."""

from __future__ import annotations

from trimaran.quorum.controller.context import ControllerContext
from trimaran.quorum.controller.partitions.alter_partition import alter_partition as decide
from trimaran.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import cluster
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import ISRS_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Handling


@handles(
    AlterPartitionRequest,
    versions="2-3",
    access=cluster(Operation.CLUSTER_ACTION),
    elements_max=ISRS_ELEMENTS_MAX,
)
def alter_partition(
    request: AlterPartitionRequest, ctx: ControllerContext, _call: Call
) -> Handling[AlterPartitionResponse]:
    return ctx.controller.submit(lambda active: decide(request, active.state))
