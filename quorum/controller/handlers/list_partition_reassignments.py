"""ListPartitionReassignments (46): moves of partitions that go on (KIP-455); the answer waits for what has been decided
to be committed.
"""

from __future__ import annotations

from node.runtime.deferred import Result
from quorum.controller.context import ControllerContext
from quorum.controller.reassignments import list_reassignments as decide
from wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from wire.transport.calls import Call, Parked
from wire.transport.registry import handles


@handles(ListPartitionReassignmentsRequest, versions="0")
def list_partition_reassignments(
    request: ListPartitionReassignmentsRequest, ctx: ControllerContext, _call: Call
) -> Parked[ListPartitionReassignmentsResponse]:
    return ctx.controller.submit(lambda active: Result((), decide(request, active.state)))
