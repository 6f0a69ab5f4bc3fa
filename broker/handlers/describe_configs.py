"""DescribeConfigs (32): configs of topics and of this broker, with their sources.

Versions: 0 says only what is default, 1 sources and synonyms, 3 types and documentation.
"""

from __future__ import annotations

from broker.handlers.context import Context
from quorum.serving.config_sources import Source
from quorum.serving.describe_configs import answer, fail_all
from wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from wire.security.acls import Operation
from wire.transport.access import configs
from wire.transport.calls import Call
from wire.transport.heavy import PARTITIONS_ELEMENTS_MAX
from wire.transport.registry import handles
from wire.transport.slices import Slices


@handles(
    DescribeConfigsRequest,
    versions="0-4",
    access=configs(Operation.DESCRIBE_CONFIGS),
    on_error=fail_all,
    slices=Slices("resources", "results"),
    elements_max=PARTITIONS_ELEMENTS_MAX,
)
def describe_configs(
    request: DescribeConfigsRequest, ctx: Context, call: Call
) -> DescribeConfigsResponse:
    response = answer(request, ctx, call, ctx.metadata.image)
    if call.header.api_version == 0:
        for result in response.results:
            for config in result.configs:
                config.is_default = config.config_source == Source.DEFAULT
    return response
