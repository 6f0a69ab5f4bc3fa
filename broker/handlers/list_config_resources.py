"""ListConfigResources (74): the resources that configs can be asked of, by type (KIP-1142).

Version 0 was ListClientMetricsResources and tells of those only (KIP-714).
"""

from __future__ import annotations

from collections.abc import Iterable

from trimaran.broker.handlers.context import Context
from trimaran.quorum.metadata.image import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    MetadataImage,
)
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import cluster
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import FEW_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles

ALL = (
    GROUP_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
)


@handles(
    ListConfigResourcesRequest,
    versions="0-1",
    access=cluster(Operation.DESCRIBE_CONFIGS),
    elements_max=FEW_ELEMENTS_MAX,
)
async def list_config_resources(
    request: ListConfigResourcesRequest, ctx: Context, call: Call
) -> ListConfigResourcesResponse:
    supported = ALL if call.header.api_version else (CLIENT_METRICS_RESOURCE,)
    wanted = set(request.resource_types or supported)
    if not wanted <= set(supported):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    image = ctx.metadata.image
    resources = (
        ConfigResource(resource_name=name, resource_type=kind)
        for kind in ALL
        if kind in wanted
        for name in _names(kind, image)
    )
    return ListConfigResourcesResponse(config_resources=await call.room().encode(resources))


def _names(kind: int, image: MetadataImage) -> Iterable[str]:
    """Topics and brokers that there are, groups and subscriptions that have configs."""
    if kind == TOPIC_RESOURCE:
        return sorted(image.topics.by_name)
    if kind in (BROKER_RESOURCE, BROKER_LOGGER_RESOURCE):
        brokers = sorted(image.cluster.brokers.values(), key=lambda one: one.id)
        return [str(broker.id) for broker in brokers if not broker.fenced]
    return sorted(name for of, name in image.configs.by_resource if of == kind)
