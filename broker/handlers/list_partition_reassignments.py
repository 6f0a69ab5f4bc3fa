"""ListPartitionReassignments (46): decided by the controller."""

from __future__ import annotations

from broker.handlers.context import Context
from wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)
from wire.outgoing import Outgoing
from wire.transport.calls import Call
from wire.transport.heavy import DECISION_ELEMENTS_MAX
from wire.transport.registry import handles


@handles(ListPartitionReassignmentsRequest, versions="0", elements_max=DECISION_ELEMENTS_MAX)
async def list_partition_reassignments(
    request: ListPartitionReassignmentsRequest, ctx: Context, call: Call
) -> Outgoing:
    return await ctx.forwarder.pass_on(request, call)
