"""AlterPartition (56): a leader changes the ISR of its partitions (KIP-497, KIP-841, KIP-903)."""

from __future__ import annotations

from quorum.controller.alter_partition import alter_partition as decide
from quorum.controller.context import ControllerContext
from wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from wire.security.acls import Operation
from wire.transport.access import cluster
from wire.transport.calls import Call, DeferredResponse
from wire.transport.heavy import ISRS_ELEMENTS_MAX
from wire.transport.registry import handles


@handles(
    AlterPartitionRequest,
    versions="2-3",
    access=cluster(Operation.CLUSTER_ACTION),
    elements_max=ISRS_ELEMENTS_MAX,
)
def alter_partition(
    request: AlterPartitionRequest, ctx: ControllerContext, _call: Call
) -> DeferredResponse[AlterPartitionResponse]:
    return ctx.controller.submit(lambda active: decide(request, active.state))
