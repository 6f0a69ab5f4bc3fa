"""DescribeConfigs (32) on a controller: configs of topics, of this node, and of all brokers together."""

from __future__ import annotations

from trimaran.quorum.controller.context import ControllerContext
from trimaran.quorum.serving.describe_configs import answer, asked_once, fail_all
from trimaran.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import configs
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import PARTITIONS_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles


@handles(
    DescribeConfigsRequest,
    versions="1-4",
    access=configs(Operation.DESCRIBE_CONFIGS),
    on_error=fail_all,
    elements_max=PARTITIONS_ELEMENTS_MAX,
    once=asked_once,
)
async def describe_configs(
    request: DescribeConfigsRequest, ctx: ControllerContext, call: Call
) -> DescribeConfigsResponse:
    return await answer(request, ctx, call, ctx.image)
