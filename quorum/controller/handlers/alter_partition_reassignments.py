"""AlterPartitionReassignments (45): begins and cancels moves of partitions (KIP-455)."""

from __future__ import annotations

from trimaran.quorum.controller.context import ControllerContext
from trimaran.quorum.controller.partitions.reassignments import alter_reassignments as decide
from trimaran.quorum.serving.refusals import fail_alter_reassignments
from trimaran.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import cluster
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import DECISION_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Handling


@handles(
    AlterPartitionReassignmentsRequest,
    versions="0-1",
    access=cluster(Operation.ALTER),
    on_error=fail_alter_reassignments,
    elements_max=DECISION_ELEMENTS_MAX,
)
def alter_partition_reassignments(
    request: AlterPartitionReassignmentsRequest, ctx: ControllerContext, _call: Call
) -> Handling[AlterPartitionReassignmentsResponse]:
    return ctx.controller.submit(lambda active: decide(request, active.state))
