"""DescribeConfigs (32): configs of topics and of this broker, with their sources.

Versions: 1 sources and synonyms, 3 types and documentation. Not done: loggers, client metrics, groups (INVALID_REQUEST).
"""

from __future__ import annotations

from broker.context import Context
from broker.topic_names import invalid_topic_name
from quorum.config.description import ConfigDescription
from quorum.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE
from wire.errors import ErrorCode, KafkaError
from wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from wire.transport.calls import Call
from wire.transport.registry import handles


def _fail(
    request: DescribeConfigsRequest, code: ErrorCode, message: str
) -> DescribeConfigsResponse:
    error = KafkaError(code, message)
    return DescribeConfigsResponse(results=[_error(one, error) for one in request.resources])


@handles(DescribeConfigsRequest, versions="1-4", on_error=_fail)
def describe_configs(
    request: DescribeConfigsRequest, ctx: Context, _call: Call
) -> DescribeConfigsResponse:
    description = ConfigDescription(
        ctx.config,
        ctx.metadata.image.configs,
        synonyms=request.include_synonyms,
        documentation=request.include_documentation,
    )
    results = []
    for resource in request.resources:
        try:
            configs = _describe(resource, description, ctx)
        except KafkaError as error:
            results.append(_error(resource, error))
        else:
            results.append(
                DescribeConfigsResult(
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                    configs=configs,
                )
            )
    return DescribeConfigsResponse(results=results)


def _describe(
    resource: DescribeConfigsResource, description: ConfigDescription, ctx: Context
) -> list[DescribeConfigsResourceResult]:
    # Kafka takes no keys for all keys.
    wanted = resource.configuration_keys or None
    name = resource.resource_name
    if resource.resource_type == TOPIC_RESOURCE:
        if invalid_topic_name(name):
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{name!r} is no topic name")
        if name not in ctx.metadata.image.topics.by_name:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return description.topic(name, wanted)
    if resource.resource_type == BROKER_RESOURCE:
        if not name:
            return description.cluster_default(wanted)
        if name != str(ctx.node_id):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"this is broker {ctx.node_id}, not {name!r}"
            )
        return description.broker(wanted)
    raise KafkaError(
        ErrorCode.INVALID_REQUEST, f"resources of type {resource.resource_type} are not described"
    )


def _error(resource: DescribeConfigsResource, error: KafkaError) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=error.code,
        error_message=error.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[],
    )
