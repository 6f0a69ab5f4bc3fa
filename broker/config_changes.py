"""What a broker answers itself of a change of configs: its loggers, and what could not be meant for the controller.

Source: Kafka's `ConfigAdminManager`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from broker.context import Context
from quorum.authorization import may
from quorum.config.loggers import alter_loggers
from quorum.controller.configs import NONE, resource_of
from quorum.metadata.acls import Operation
from quorum.metadata.authorizer import Action
from quorum.metadata.image import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    RESOURCE_TYPES,
    ConfigResource,
)
from wire.errors import ErrorCode, KafkaError
from wire.messages import alter_configs, incremental_alter_configs
from wire.transport.calls import Call

R = TypeVar(
    "R",
    alter_configs.AlterConfigsResponse,
    incremental_alter_configs.IncrementalAlterConfigsResponse,
)
Resource = alter_configs.AlterConfigsResource | incremental_alter_configs.AlterConfigsResource


async def altered(
    request: alter_configs.AlterConfigsRequest
    | incremental_alter_configs.IncrementalAlterConfigsRequest,
    ctx: Context,
    call: Call,
    respond: Callable[[Mapping[ConfigResource, KafkaError]], R],
) -> R:
    """What is answered here and, behind it, the controller's answer to the rest of the request."""
    answered = answered_here(
        request.resources,
        ctx.node_id,
        validate_only=request.validate_only,
        may_alter_loggers=may(ctx, call.connection, Action(Operation.ALTER_CONFIGS)),
    )
    own = respond(answered)
    left: list[Any] = [one for one in request.resources if resource_of(one) not in answered]
    if left:
        response = await ctx.forwarder.forward(request.replace(resources=left), call, type(own))
        own.responses.extend(response.responses)
    return own


def answered_here(
    resources: Sequence[Resource], node_id: int, *, validate_only: bool, may_alter_loggers: bool
) -> dict[ConfigResource, KafkaError]:
    """The resources that need not go to the controller; NONE where all is well."""
    times = Counter(map(resource_of, resources))
    answered: dict[ConfigResource, KafkaError] = {}
    for resource in resources:
        key = resource_of(resource)
        try:
            if times[key] > 1:
                raise _invalid("Each resource must appear at most once.")
            if _is_done_here(
                resource, node_id, validate_only=validate_only, may_alter_loggers=may_alter_loggers
            ):
                answered[key] = NONE
        except KafkaError as error:
            answered[key] = error
    return answered


def _is_done_here(
    resource: Resource, node_id: int, *, validate_only: bool, may_alter_loggers: bool
) -> bool:
    kind, name = resource_of(resource)
    if kind == BROKER_LOGGER_RESOURCE and isinstance(
        resource, incremental_alter_configs.AlterConfigsResource
    ):
        if not may_alter_loggers:
            raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        alter_loggers(resource, node_id, validate_only=validate_only)
        return True
    if kind not in RESOURCE_TYPES or kind == BROKER_LOGGER_RESOURCE:
        raise _invalid(f"Unknown resource type {kind}")
    if kind == BROKER_RESOURCE and name:
        _check_is_us(name, node_id)
    return False


def _check_is_us(name: str, node_id: int) -> None:
    try:
        number = int(name)
    except ValueError:
        raise _invalid(f"Node id must be an integer, but it is: {name}") from None
    if number != node_id:
        raise _invalid(f"Unexpected broker id, expected {node_id}, but received {name}")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
