"""DescribeConfigs (32): configs of topics and of this broker, with their sources.

Versions: 0 says only what is default, 1 sources and synonyms, 3 types and documentation.
"""

from __future__ import annotations

from trimaran.broker.handlers.context import Context
from trimaran.quorum.serving.describe_configs import answer, asked_once, fail_all
from trimaran.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import configs
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import PARTITIONS_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles


@handles(
    DescribeConfigsRequest,
    versions="0-4",
    access=configs(Operation.DESCRIBE_CONFIGS),
    on_error=fail_all,
    elements_max=PARTITIONS_ELEMENTS_MAX,
    once=asked_once,
)
async def describe_configs(
    request: DescribeConfigsRequest, ctx: Context, call: Call
) -> DescribeConfigsResponse:
    return await answer(request, ctx, call, ctx.metadata.image)
