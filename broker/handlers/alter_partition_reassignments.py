"""AlterPartitionReassignments (45): decided by the controller."""

from __future__ import annotations

from broker.handlers.context import Context
from wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
)
from wire.outgoing import Outgoing
from wire.transport.access import BY_CONTROLLER
from wire.transport.calls import Call
from wire.transport.registry import handles


@handles(AlterPartitionReassignmentsRequest, versions="0-1", access=BY_CONTROLLER)
async def alter_partition_reassignments(
    request: AlterPartitionReassignmentsRequest, ctx: Context, call: Call
) -> Outgoing:
    return await ctx.forwarder.pass_on(request, call)
