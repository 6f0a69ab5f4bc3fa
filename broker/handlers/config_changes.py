"""The part of a config change that a broker handles itself: its loggers, and checks that only this broker can make.

Source: Kafka's `ConfigAdminManager`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from trimaran.broker.handlers.context import AdminContext
from trimaran.node.config.config_def import ConfigError
from trimaran.node.config.loggers import ConfigOperation, alter_loggers
from trimaran.node.config.server_keys import SERVER_CONFIGS
from trimaran.node.runtime.threads import run_blocking
from trimaran.quorum.controller.configs.config_checks import CORDONED
from trimaran.quorum.controller.configs.configs import NONE, resource_of
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
from trimaran.wire.identity import BrokerId
from trimaran.wire.messages import alter_configs, incremental_alter_configs
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.scheduling.effects import (
    ITEM_COST_BYTES,
    Blocking,
    Compute,
    Handling,
)

R = TypeVar(
    "R",
    alter_configs.AlterConfigsResponse,
    incremental_alter_configs.IncrementalAlterConfigsResponse,
)
TAKING_AWAY = (ConfigOperation.DELETE, ConfigOperation.SUBTRACT)
Resource = alter_configs.AlterConfigsResource | incremental_alter_configs.AlterConfigsResource


def altered(
    request: alter_configs.AlterConfigsRequest
    | incremental_alter_configs.IncrementalAlterConfigsRequest,
    ctx: AdminContext,
    call: Call,
    respond: Callable[[Mapping[ConfigResource, KafkaError]], R],
) -> Handling[R]:
    """Returns the response: this broker's results for some resources, followed by the controller's results for the
    rest.
    """
    answered: dict[ConfigResource, KafkaError] = {}
    yield from respond_here(
        request.resources,
        ctx,
        answered,
        validate_only=request.validate_only,
        may_alter_loggers=may(ctx, call, Action(Operation.ALTER_CONFIGS)),
    )
    yield from _check_own_listeners(request.resources, ctx, answered)
    own: R
    own, left = yield Compute(
        ITEM_COST_BYTES * len(request.resources),
        partial(_split, request.resources, answered, respond),
    )
    if left:
        wanted = request.replace(resources=left)
        response = yield from ctx.forwarder.forward(wanted, call, type(own))
        own.responses.extend(response.responses)
    return own


def _split(
    resources: Sequence[Resource],
    answered: Mapping[ConfigResource, KafkaError],
    respond: Callable[[Mapping[ConfigResource, KafkaError]], R],
) -> tuple[R, list[Any]]:
    """Returns the response with the results known so far, and the resources to forward to the controller."""
    left = [resource for resource in resources if resource_of(resource) not in answered]
    return respond(answered), left


def respond_here(
    resources: Sequence[Resource],
    ctx: AdminContext,
    answered: dict[ConfigResource, KafkaError],
    *,
    validate_only: bool,
    may_alter_loggers: bool,
) -> Handling[None]:
    """Puts the resources that need not go to the controller into `answered`, each with NONE or its error."""
    times: Counter[ConfigResource] = yield Compute(
        ITEM_COST_BYTES * len(resources), lambda: Counter(map(resource_of, resources))
    )
    for resource in resources:
        yield None
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
    resource: Resource, ctx: AdminContext, *, validate_only: bool, may_alter_loggers: bool
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


def _check_is_us(name: str, node_id: BrokerId) -> None:
    try:
        number = int(name)
    except ValueError:
        raise _invalid(f"Node id must be an integer, but it is: {name}") from None
    if number != node_id:
        raise _invalid(f"Unexpected broker id, expected {node_id}, but received {name}")


def _check_cordoned(resource: Resource, ctx: AdminContext) -> None:
    """Raises KafkaError INVALID_REQUEST if a cordoned directory is not a log directory of this broker."""
    key = SERVER_CONFIGS[CORDONED]
    dynamic = ctx.metadata.image.configs.of(BROKER_RESOURCE, str(ctx.node_id))
    try:
        for config in resource.configs:
            operation = getattr(config, "config_operation", ConfigOperation.SET)
            if config.name != CORDONED or config.value is None or operation in TAKING_AWAY:
                continue
            appends = operation == ConfigOperation.APPEND
            present = key.parse_stored(dynamic.get(CORDONED, "")) if appends else []
            added = [name for name in key.parse(config.value) if name not in present]
            ctx.config.check_cordoned([*present, *added])
    except ConfigError as error:
        raise _invalid(error.answer) from error


def _check_own_listeners(
    resources: Sequence[Resource], ctx: AdminContext, answered: dict[ConfigResource, KafkaError]
) -> Handling[None]:
    """Refuses configs of this node that its listeners could not use; the controller cannot check them without this
    node's files.

    At most one resource is for this node. A thread reads the files that its configs name.
    """
    for resource in resources:
        kind, name = key = resource_of(resource)
        if key not in answered and kind == BROKER_RESOURCE and name:
            try:
                yield Blocking(partial(run_blocking, _check_listeners, resource, ctx))
            except KafkaError as error:
                answered[key] = error


def _check_listeners(resource: Resource, ctx: AdminContext) -> None:
    """Checks the certificates and users that this broker's listeners would use. Raises KafkaError."""
    configs = ctx.metadata.image.configs
    changes: dict[str, str | None] = {}
    if isinstance(
        resource, alter_configs.AlterConfigsResource
    ):  # this request lists all configs that will remain
        changes = dict.fromkeys(configs.of(BROKER_RESOURCE, str(ctx.node_id)))
    for config in resource.configs:
        operation = getattr(config, "config_operation", ConfigOperation.SET)
        changes[config.name] = None if operation in TAKING_AWAY else config.value
    try:
        check_altered(ctx.config, configs, changes)
    except ConfigError as error:
        raise _invalid(f"{error}; {error.fix}") from error


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
