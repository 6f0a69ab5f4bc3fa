"""DescribeConfigs (32): configs of topics and of this broker, with their sources.

Versions: 1 sources and synonyms, 3 types and documentation.
"""

from __future__ import annotations

from broker.context import Context
from quorum.config.describing import answer, fail_all
from wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from wire.transport.calls import Call
from wire.transport.registry import handles


@handles(DescribeConfigsRequest, versions="1-4", on_error=fail_all)
def describe_configs(
    request: DescribeConfigsRequest, ctx: Context, _call: Call
) -> DescribeConfigsResponse:
    return answer(request, ctx.config, ctx.metadata.image)
