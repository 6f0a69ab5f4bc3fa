"""ListConfigResources (74): lists the resources that have configs, by type (KIP-1142).

Version 0 was ListClientMetricsResources and only lists those (KIP-714).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from trimaran.broker.handlers.context import AdminContext
from trimaran.quorum.metadata.image import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    MetadataImage,
)
from trimaran.wire.codec.declarations import EncodedArray
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
from trimaran.wire.transport.scheduling.effects import ITEM_COST_BYTES, Compute, Handling

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
def list_config_resources(
    request: ListConfigResourcesRequest, ctx: AdminContext, call: Call
) -> Handling[ListConfigResourcesResponse]:
    supported = ALL if call.header.api_version else (CLIENT_METRICS_RESOURCE,)
    wanted = set(request.resource_types or supported)
    if not wanted <= set(supported):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    image, room, resources = ctx.image, call.room(), EncodedArray()
    for kind in ALL:
        if kind in wanted:
            cost = ITEM_COST_BYTES * len(image.topics.by_name)
            for name in (yield Compute(cost, partial(_names, kind, image))):
                resource = ConfigResource(resource_name=name, resource_type=kind)
                resources.append(room.encoded(resource))
                yield None
    return ListConfigResourcesResponse(config_resources=resources)


def _names(kind: int, image: MetadataImage) -> Iterable[str]:
    """Returns the names of all topics and brokers, and of the groups and subscriptions that have configs."""
    if kind == TOPIC_RESOURCE:
        return sorted(image.topics.by_name)
    if kind in (BROKER_RESOURCE, BROKER_LOGGER_RESOURCE):
        brokers = sorted(image.cluster.brokers.values(), key=lambda one: one.id)
        return [str(broker.id) for broker in brokers if not broker.fenced]
    return sorted(name for of, name in image.configs.by_resource if of == kind)
