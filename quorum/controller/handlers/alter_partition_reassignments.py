"""AlterPartitionReassignments (45): begins and cancels moves of partitions (KIP-455)."""

from __future__ import annotations

from functools import partial

from quorum.controller.context import ControllerContext
from quorum.controller.reassignments import alter_reassignments as decide
from quorum.serving.refusals import fail_alter_reassignments
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
    on_error=fail_alter_reassignments,
    elements_max=DECISION_ELEMENTS_MAX,
)
def alter_partition_reassignments(
    request: AlterPartitionReassignmentsRequest, ctx: ControllerContext, _call: Call
) -> DeferredResponse[AlterPartitionReassignmentsResponse]:
    return ctx.controller.submit(
        lambda active: decide(request, active.state), partial(fail_alter_reassignments, request)
    )
