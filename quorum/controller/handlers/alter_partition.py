"""AlterPartition (56): a leader changes the ISR of its partitions (KIP-497, KIP-841, KIP-903)."""

from __future__ import annotations

from quorum.controller.alter_partition import alter_partition as decide
from quorum.controller.context import ControllerContext
from wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from wire.transport.calls import Call, Parked
from wire.transport.registry import handles


@handles(AlterPartitionRequest, versions="2-3")
def alter_partition(
    request: AlterPartitionRequest, ctx: ControllerContext, _call: Call
) -> Parked[AlterPartitionResponse]:
    return ctx.controller.submit(lambda active: decide(request, active.state))
