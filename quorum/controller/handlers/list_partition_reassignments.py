"""ListPartitionReassignments (46): lists the reassignments under way (KIP-455); the response is sent when all earlier
decisions are committed.
"""

from __future__ import annotations

from trimaran.quorum.controller.context import ControllerContext
from trimaran.quorum.controller.partitions.reassignments import list_reassignments as decide
from trimaran.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import cluster
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import DECISION_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Handling


@handles(
    ListPartitionReassignmentsRequest,
    versions="0",
    access=cluster(Operation.DESCRIBE),
    elements_max=DECISION_ELEMENTS_MAX,
)
def list_partition_reassignments(
    request: ListPartitionReassignmentsRequest, ctx: ControllerContext, call: Call
) -> Handling[ListPartitionReassignmentsResponse]:
    response = yield from ctx.controller.submit(lambda active: decide(request, active.state))
    return response.replace(topics=(yield from call.room().encoding(response.topics)))
