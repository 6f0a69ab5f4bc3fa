"""DescribeClientQuotas (48): quotas of the clients that a filter matches, by what this broker knows."""

from __future__ import annotations

from trimaran.broker.handlers.context import Context
from trimaran.node.runtime.turns import with_checkpoints
from trimaran.quorum.metadata.client_quotas import describe_client_quotas as describe
from trimaran.wire.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.memory.room import OBJECT_BYTES
from trimaran.wire.transport.requests.access import cluster
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import FEW_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles

# Held against the filter between two checkpoints: 3 ms of work.
QUOTAS_PER_TURN = 500


@handles(
    DescribeClientQuotasRequest,
    versions="0-1",
    access=cluster(Operation.DESCRIBE_CONFIGS),
    elements_max=FEW_ELEMENTS_MAX,
)
async def describe_client_quotas(
    request: DescribeClientQuotasRequest, ctx: Context, call: Call
) -> DescribeClientQuotasResponse:
    quotas, room = ctx.metadata.image.quotas, call.room()
    await room.pause(len(quotas) * OBJECT_BYTES)
    entries = await with_checkpoints(describe(request, quotas), QUOTAS_PER_TURN)
    return DescribeClientQuotasResponse(entries=await room.encode(entries))
