"""DescribeConfigs (32), on brokers and controllers: returns configs of topics, groups and client metrics, of the node
itself and its loggers, and the cluster-wide defaults of brokers.

Version 0 returns only whether a value is the default, version 1 adds sources and synonyms, version 3 types and
documentation. Source: Kafka's `ConfigHelper`.
"""

from __future__ import annotations

from trimaran.node.config.config_source import ConfigSource
from trimaran.quorum.metadata.authorizer import Action, config_refusal, config_resource
from trimaran.quorum.metadata.image import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    RESOURCE_TYPES,
    TOPIC_RESOURCE,
    MetadataImage,
)
from trimaran.quorum.metadata.topic_names import why_illegal
from trimaran.quorum.serving.authorization import Guarded, Serving, may
from trimaran.quorum.serving.config_entries import ConfigDescription
from trimaran.wire.codec.declarations import EncodedArray
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import NodeId
from trimaran.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import configs
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import PARTITIONS_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles, handles_as
from trimaran.wire.transport.scheduling.effects import Handling

# The memory of one resource's configs as objects, with synonyms and documentation.
CONFIGS_BYTES = {TOPIC_RESOURCE: 40 << 10, BROKER_RESOURCE: 400 << 10}


def fail_all(
    request: DescribeConfigsRequest, code: ErrorCode, message: str
) -> DescribeConfigsResponse:
    """Returns the response for a request that could not be handled at all."""
    error = KafkaError(code, message)
    return DescribeConfigsResponse(
        results=[_failed(resource, error) for resource in request.resources]
    )


def asked_once(request: DescribeConfigsRequest) -> DescribeConfigsRequest:
    """Returns the request with each resource once, with all the configs that the request names for it."""
    wanted: dict[tuple[int, str], dict[str, None] | None] = {}
    for resource in request.resources:
        key = (resource.resource_type, resource.resource_name)
        keys = resource.configuration_keys or None  # in Kafka an empty list requests all keys
        before = wanted.setdefault(key, {})
        if keys is None or before is None:
            wanted[key] = None
        else:
            before.update(dict.fromkeys(keys))
    return request.replace(
        resources=[
            DescribeConfigsResource(
                resource_type=kind,
                resource_name=name,
                configuration_keys=None if keys is None else list(keys),
            )
            for (kind, name), keys in wanted.items()
        ]
    )


@handles(
    DescribeConfigsRequest,
    versions="0-4",
    access=configs(Operation.DESCRIBE_CONFIGS),
    on_error=fail_all,
    elements_max=PARTITIONS_ELEMENTS_MAX,
    once=asked_once,
)
def describe_configs(
    request: DescribeConfigsRequest, ctx: Serving, call: Call
) -> Handling[DescribeConfigsResponse]:
    """Returns the configs of each resource. Raises KafkaError: INVALID_REQUEST if a resource has an unknown type."""
    for each_resource in request.resources:
        if each_resource.resource_type not in RESOURCE_TYPES:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Unexpected resource type {each_resource.resource_type} for resource {each_resource.resource_name}",
            )
    config, image, room = ctx.config, ctx.image, call.room()
    description = ConfigDescription(
        config,
        image.configs,
        synonyms=request.include_synonyms,
        documentation=request.include_documentation,
    )

    def result(resource: DescribeConfigsResource) -> Handling[bytes]:
        try:
            _check_access(resource, ctx, call)
            room.expect(CONFIGS_BYTES.get(resource.resource_type, 0))
            yield None
            described = _describe(resource, description, config.node_id, image)
            if call.header.api_version == 0:
                _set_is_default(described)
            head = DescribeConfigsResult(
                error_message="",  # as in Kafka on success
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                configs=[],
            )
            return (yield from room.encoding_with(head, "configs", described))
        except KafkaError as error:
            return room.refusal(_failed(resource, error))

    found = EncodedArray()
    for resource in request.resources:
        found.append((yield from result(resource)))
        yield None
    return DescribeConfigsResponse(results=found)


@handles_as(describe_configs, versions="1-4")
def describe_configs_of_controller(
    request: DescribeConfigsRequest, ctx: Serving, call: Call
) -> Handling[DescribeConfigsResponse]:
    """Describes configs on a controller like `describe_configs`. Clients that know only version 0 do not know
    controllers.
    """
    return describe_configs(request, ctx, call)


def _set_is_default(configs: list[DescribeConfigsResourceResult]) -> None:
    """Sets `is_default`, because version 0 has no sources."""
    for config in configs:
        config.is_default = config.config_source == ConfigSource.DEFAULT


def _check_access(resource: DescribeConfigsResource, ctx: Guarded, call: Call) -> None:
    key = (resource.resource_type, resource.resource_name)
    if not may(ctx, call, Action(Operation.DESCRIBE_CONFIGS, *config_resource(key))):
        raise KafkaError(config_refusal(key))


def _describe(
    resource: DescribeConfigsResource,
    description: ConfigDescription,
    node_id: NodeId,
    image: MetadataImage,
) -> list[DescribeConfigsResourceResult]:
    name, wanted = resource.resource_name, resource.configuration_keys
    if resource.resource_type == TOPIC_RESOURCE:
        if (why := why_illegal(name)) is not None:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, why)
        if name not in image.topics.by_name:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return description.topic(name, wanted)
    if resource.resource_type == BROKER_RESOURCE:
        if not name:
            return description.cluster_default(wanted)
        _check_node(name, node_id, f"{node_id} or empty string,")
        return description.broker(wanted)
    if resource.resource_type == BROKER_LOGGER_RESOURCE:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
        _check_node(name, node_id, str(node_id))
        return description.loggers(wanted)
    if resource.resource_type == CLIENT_METRICS_RESOURCE:
        if not name:
            message = "Client metrics subscription name must not be empty"
            raise KafkaError(ErrorCode.INVALID_REQUEST, message)
        return description.client_metrics(name, wanted)
    assert resource.resource_type == GROUP_RESOURCE, resource.resource_type
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
    return description.group(name, wanted)


def _check_node(name: str, node_id: NodeId, expected: str) -> None:
    try:
        number = int(name)
    except ValueError:
        message = f"Broker id must be an integer, but it is: {name}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message) from None
    if number != node_id:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {expected} but received {name}",
        )


def _failed(resource: DescribeConfigsResource, error: KafkaError) -> DescribeConfigsResult:
    unknown = error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return DescribeConfigsResult(
        error_code=error.code,
        error_message="" if unknown else error.message,  # as in Kafka
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[],
    )
