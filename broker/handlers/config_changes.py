"""What a broker answers itself of a change of configs: its loggers, and what could not be meant for the controller.

Source: Kafka's `ConfigAdminManager`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from trimaran.broker.handlers.context import Context
from trimaran.node.config.config_def import ConfigError
from trimaran.node.config.loggers import ConfigOperation, alter_loggers
from trimaran.node.config.server_keys import SERVER_CONFIGS
from trimaran.node.runtime.threads import run_blocking
from trimaran.node.runtime.turns import in_turns
from trimaran.quorum.controller.config_checks import CORDONED
from trimaran.quorum.controller.configs import NONE, resource_of
from trimaran.quorum.metadata.authorizer import Action
from trimaran.quorum.metadata.image import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    RESOURCE_TYPES,
    ConfigResource,
)
from trimaran.quorum.serving.altered_security import check_altered
from trimaran.quorum.serving.authorization import may
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages import alter_configs, incremental_alter_configs
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.scheduling.compute_thread import run_apart

R = TypeVar(
    "R",
    alter_configs.AlterConfigsResponse,
    incremental_alter_configs.IncrementalAlterConfigsResponse,
)
# Looked at between two checkpoints: 5 ms of work where each is refused.
RESOURCES_PER_TURN = 500
TAKING_AWAY = (ConfigOperation.DELETE, ConfigOperation.SUBTRACT)
Resource = alter_configs.AlterConfigsResource | incremental_alter_configs.AlterConfigsResource


async def altered(
    request: alter_configs.AlterConfigsRequest
    | incremental_alter_configs.IncrementalAlterConfigsRequest,
    ctx: Context,
    call: Call,
    respond: Callable[[Mapping[ConfigResource, KafkaError]], R],
) -> R:
    """What is answered here and, behind it, the controller's answer to the rest of the request."""
    answered: dict[ConfigResource, KafkaError] = {}
    answering = answer_here(
        request.resources,
        ctx,
        answered,
        validate_only=request.validate_only,
        may_alter_loggers=may(ctx, call, Action(Operation.ALTER_CONFIGS)),
    )
    await in_turns(answering, RESOURCES_PER_TURN)
    await _check_own_listeners(request.resources, ctx, answered)
    own, left = await run_apart(_parted, request.resources, answered, respond)
    if left:
        response = await ctx.forwarder.forward(request.replace(resources=left), call, type(own))
        own.responses.extend(response.responses)
    return own


def _parted(
    resources: Sequence[Resource],
    answered: Mapping[ConfigResource, KafkaError],
    respond: Callable[[Mapping[ConfigResource, KafkaError]], R],
) -> tuple[R, list[Any]]:
    """The answer as far as it is known, and the resources that the controller is to answer."""
    return respond(answered), [one for one in resources if resource_of(one) not in answered]


def answer_here(
    resources: Sequence[Resource],
    ctx: Context,
    answered: dict[ConfigResource, KafkaError],
    *,
    validate_only: bool,
    may_alter_loggers: bool,
) -> Iterator[None]:
    """Puts the resources that need not go to the controller into `answered`; NONE where all is well. In steps of a
    resource.
    """
    times = Counter(map(resource_of, resources))
    for resource in resources:
        yield
        key = resource_of(resource)
        try:
            if times[key] > 1:
                raise _invalid("Each resource must appear at most once.")
            if _is_done_here(
                resource, ctx, validate_only=validate_only, may_alter_loggers=may_alter_loggers
            ):
                answered[key] = NONE
        except KafkaError as error:
            answered[key] = error


def _is_done_here(
    resource: Resource, ctx: Context, *, validate_only: bool, may_alter_loggers: bool
) -> bool:
    node_id = ctx.node_id
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
        _check_cordoned(resource, ctx)
    return False


def _check_is_us(name: str, node_id: int) -> None:
    try:
        number = int(name)
    except ValueError:
        raise _invalid(f"Node id must be an integer, but it is: {name}") from None
    if number != node_id:
        raise _invalid(f"Unexpected broker id, expected {node_id}, but received {name}")


def _check_cordoned(resource: Resource, ctx: Context) -> None:
    """That they are directories of ours: the controller knows no paths."""
    key = SERVER_CONFIGS[CORDONED]
    dynamic = ctx.metadata.image.configs.of(BROKER_RESOURCE, str(ctx.node_id))
    try:
        for one in resource.configs:
            operation = getattr(one, "config_operation", ConfigOperation.SET)
            if one.name != CORDONED or one.value is None or operation in TAKING_AWAY:
                continue
            appends = operation == ConfigOperation.APPEND
            present = key.parse_stored(dynamic.get(CORDONED, "")) if appends else []
            added = [name for name in key.parse(one.value) if name not in present]
            ctx.config.check_cordoned([*present, *added])
    except ConfigError as error:
        raise _invalid(error.answer) from error


async def _check_own_listeners(
    resources: Sequence[Resource], ctx: Context, answered: dict[ConfigResource, KafkaError]
) -> None:
    """Refuses configs of this node with which its listeners could not go on: the controller has no files of ours. One
    resource at most is this node's. The files that it names are read in a thread.
    """
    for resource in resources:
        kind, name = key = resource_of(resource)
        if key not in answered and kind == BROKER_RESOURCE and name:
            try:
                await run_blocking(_check_listeners, resource, ctx)
            except KafkaError as error:
                answered[key] = error


def _check_listeners(resource: Resource, ctx: Context) -> None:
    """Reads certificates and users, with which our listeners would go on."""
    configs = ctx.metadata.image.configs
    changes: dict[str, str | None] = {}
    if isinstance(resource, alter_configs.AlterConfigsResource):  # says all that there shall be
        changes = dict.fromkeys(configs.of(BROKER_RESOURCE, str(ctx.node_id)))
    for one in resource.configs:
        operation = getattr(one, "config_operation", ConfigOperation.SET)
        changes[one.name] = None if operation in TAKING_AWAY else one.value
    try:
        check_altered(ctx.config, configs, changes)
    except ConfigError as error:
        raise _invalid(f"{error}; {error.fix}") from error


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
