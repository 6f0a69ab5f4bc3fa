"""The answer to DescribeConfigs (32), the same of a broker and of a controller: each tells of topics, of itself, and of the
brokers' default.

Left out: loggers, client metrics, groups (INVALID_REQUEST).
"""

from __future__ import annotations

from quorum.config.description import ConfigDescription
from quorum.config.server import ServerConfig
from quorum.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE, MetadataImage
from quorum.metadata.topic_names import why_illegal
from wire.errors import ErrorCode, KafkaError
from wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)


def fail_all(
    request: DescribeConfigsRequest, code: ErrorCode, message: str
) -> DescribeConfigsResponse:
    """The answer when the handler could not even begin."""
    error = KafkaError(code, message)
    return DescribeConfigsResponse(results=[_failed(one, error) for one in request.resources])


def answer(
    request: DescribeConfigsRequest, config: ServerConfig, image: MetadataImage
) -> DescribeConfigsResponse:
    """`config` is this node's, `image` what it knows of topics and dynamic configs."""
    description = ConfigDescription(
        config,
        image.configs,
        synonyms=request.include_synonyms,
        documentation=request.include_documentation,
    )

    def result(resource: DescribeConfigsResource) -> DescribeConfigsResult:
        try:
            configs = _describe(resource, description, config.node_id, image)
        except KafkaError as error:
            return _failed(resource, error)
        return DescribeConfigsResult(
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            configs=configs,
        )

    return DescribeConfigsResponse(results=[result(one) for one in request.resources])


def _describe(
    resource: DescribeConfigsResource,
    description: ConfigDescription,
    node_id: int,
    image: MetadataImage,
) -> list[DescribeConfigsResourceResult]:
    # Kafka takes no keys for all keys.
    name, wanted = resource.resource_name, resource.configuration_keys or None
    if resource.resource_type == TOPIC_RESOURCE:
        if (why := why_illegal(name)) is not None:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, why)
        if name not in image.topics.by_name:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return description.topic(name, wanted)
    if resource.resource_type == BROKER_RESOURCE:
        if not name:
            return description.cluster_default(wanted)
        if name != str(node_id):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"this is node {node_id}, not {name!r}")
        return description.broker(wanted)
    raise KafkaError(
        ErrorCode.INVALID_REQUEST, f"resources of type {resource.resource_type} are not described"
    )


def _failed(resource: DescribeConfigsResource, error: KafkaError) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=error.code,
        error_message=error.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[],
    )
