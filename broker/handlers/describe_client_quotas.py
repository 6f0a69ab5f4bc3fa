"""DescribeClientQuotas (48): quotas of the clients that a filter matches, by what this broker knows."""

from __future__ import annotations

from broker.handlers.context import Context
from quorum.metadata.client_quotas import describe_client_quotas as describe
from wire.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from wire.transport.calls import Call
from wire.transport.heavy import FEW_ELEMENTS_MAX
from wire.transport.registry import handles


@handles(DescribeClientQuotasRequest, versions="0-1", elements_max=FEW_ELEMENTS_MAX)
def describe_client_quotas(
    request: DescribeClientQuotasRequest, ctx: Context, _call: Call
) -> DescribeClientQuotasResponse:
    return describe(request, ctx.metadata.image.quotas)
