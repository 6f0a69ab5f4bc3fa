"""ListPartitionReassignments (46): decided by the controller."""

from __future__ import annotations

from broker.handlers.context import Context
from wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)
from wire.outgoing import Outgoing
from wire.transport.access import BY_CONTROLLER
from wire.transport.calls import Call
from wire.transport.registry import handles


@handles(ListPartitionReassignmentsRequest, versions="0", access=BY_CONTROLLER)
async def list_partition_reassignments(
    request: ListPartitionReassignmentsRequest, ctx: Context, call: Call
) -> Outgoing:
    return await ctx.forwarder.pass_on(request, call)
