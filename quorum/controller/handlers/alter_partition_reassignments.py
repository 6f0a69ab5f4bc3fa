"""AlterPartitionReassignments (45): begins and cancels moves of partitions (KIP-455)."""

from __future__ import annotations

from quorum.controller.context import ControllerContext
from quorum.controller.reassignments import alter_reassignments as decide
from wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from wire.security.acls import Operation
from wire.transport.access import cluster
from wire.transport.calls import Call, DeferredResponse
from wire.transport.heavy import DECISION_ELEMENTS_MAX
from wire.transport.registry import handles


@handles(
    AlterPartitionReassignmentsRequest,
    versions="0-1",
    access=cluster(Operation.ALTER),
    elements_max=DECISION_ELEMENTS_MAX,
)
def alter_partition_reassignments(
    request: AlterPartitionReassignmentsRequest, ctx: ControllerContext, _call: Call
) -> DeferredResponse[AlterPartitionReassignmentsResponse]:
    return ctx.controller.submit(lambda active: decide(request, active.state))
