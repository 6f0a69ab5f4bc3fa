"""AlterPartitionReassignments (45): decided by the controller."""

from __future__ import annotations

from broker.handlers.context import Context
from wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
)
from wire.outgoing import Outgoing
from wire.transport.calls import Call
from wire.transport.heavy import DECISION_ELEMENTS_MAX
from wire.transport.registry import handles


@handles(AlterPartitionReassignmentsRequest, versions="0-1", elements_max=DECISION_ELEMENTS_MAX)
async def alter_partition_reassignments(
    request: AlterPartitionReassignmentsRequest, ctx: Context, call: Call
) -> Outgoing:
    return await ctx.forwarder.pass_on(request, call)
