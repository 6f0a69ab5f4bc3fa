"""AlterPartitionReassignments (45): begins and cancels moves of partitions (KIP-455)."""

from __future__ import annotations

from quorum.controller.context import ControllerContext
from quorum.controller.reassignments import alter_reassignments as decide
from wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from wire.transport.calls import Call, Parked
from wire.transport.registry import handles


@handles(AlterPartitionReassignmentsRequest, versions="0-1")
def alter_partition_reassignments(
    request: AlterPartitionReassignmentsRequest, ctx: ControllerContext, _call: Call
) -> Parked[AlterPartitionReassignmentsResponse]:
    return ctx.controller.submit(lambda active: decide(request, active.state))
