"""DescribeClientQuotas (48): lists the client quotas that match a filter, from this broker's metadata."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from trimaran.broker.handlers.context import AdminContext
from trimaran.quorum.metadata.describe_client_quotas import describe_client_quotas as describe
from trimaran.wire.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntryData,
)
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.memory.room import OBJECT_BYTES
from trimaran.wire.transport.requests.access import cluster
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import FEW_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import ITEM_COST_BYTES, Compute, Handling


@handles(
    DescribeClientQuotasRequest,
    versions="0-1",
    access=cluster(Operation.DESCRIBE_CONFIGS),
    elements_max=FEW_ELEMENTS_MAX,
)
def describe_client_quotas(
    request: DescribeClientQuotasRequest, ctx: AdminContext, call: Call
) -> Handling[DescribeClientQuotasResponse]:
    quotas, room = ctx.metadata.image.quotas, call.room()
    room.expect(len(quotas) * OBJECT_BYTES)
    yield None
    entries: Iterator[EntryData] = yield Compute(
        ITEM_COST_BYTES * len(quotas), partial(describe, request, quotas)
    )
    return DescribeClientQuotasResponse(entries=(yield from room.encoding(entries)))
