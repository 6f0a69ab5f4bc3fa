"""DescribeConfigs (32) on a controller: configs of topics, of this node, and of all brokers together.

Not done: loggers, groups, client metrics (INVALID_REQUEST).
"""

from __future__ import annotations

from quorum.config.description import ConfigDescription
from quorum.controller.context import ControllerContext
from quorum.controller.topic_names import why_illegal
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
    return DescribeConfigsResponse(results=[_failed(one, error) for one in request.resources])


@handles(DescribeConfigsRequest, versions="1-4", on_error=_fail)
def describe_configs(
    request: DescribeConfigsRequest, ctx: ControllerContext, _call: Call
) -> DescribeConfigsResponse:
    description = ConfigDescription(
        ctx.config,
        ctx.image.configs,
        synonyms=request.include_synonyms,
        documentation=request.include_documentation,
    )
    results = []
    for resource in request.resources:
        try:
            configs = _describe(resource, description, ctx)
        except KafkaError as error:
            results.append(_failed(resource, error))
            continue
        results.append(
            DescribeConfigsResult(
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                configs=configs,
            )
        )
    return DescribeConfigsResponse(results=results)


def _describe(
    resource: DescribeConfigsResource, description: ConfigDescription, ctx: ControllerContext
) -> list[DescribeConfigsResourceResult]:
    name, wanted = resource.resource_name, resource.configuration_keys or None
    if resource.resource_type == TOPIC_RESOURCE:
        if (why := why_illegal(name)) is not None:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, why)
        if name not in ctx.image.topics.by_name:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return description.topic(name, wanted)
    if resource.resource_type == BROKER_RESOURCE:
        if not name:
            return description.cluster_default(wanted)
        if name != str(ctx.config.node_id):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"this is node {ctx.config.node_id}, not {name!r}"
            )
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
