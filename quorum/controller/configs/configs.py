"""Decides IncrementalAlterConfigs and AlterConfigs: each resource is checked with its new configs, and changed
completely or not at all.

Source: Kafka's `ConfigurationControlManager`, KIP-339, KIP-966. See `trimaran.node.config.loggers` for loggers, which
belong to one process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from trimaran.node.config.group_keys import NOTHING
from trimaran.node.config.loggers import ConfigOperation
from trimaran.node.replicated.state_machine import Result
from trimaran.node.runtime.steps import Steps
from trimaran.quorum.controller.configs.config_checks import (
    CHARACTERS_MAX,
    CONFIGS_MAX,
    MIN_ISR,
    Changes,
    characters_of,
    check,
    key_of,
    steps_of,
)
from trimaran.quorum.controller.configs.policies import NO_POLICIES, Policies
from trimaran.quorum.controller.partitions.topics import RECORDS_MAX, too_much
from trimaran.quorum.metadata.features import ELR_VERSION
from trimaran.quorum.metadata.image import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    RESOURCE_TYPES,
    TOPIC_RESOURCE,
    ConfigResource,
    MetadataImage,
)
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages import alter_configs as legacy
from trimaran.wire.messages import incremental_alter_configs as incremental
from trimaran.wire.records.configs import ConfigRecord
from trimaran.wire.records.topics import ClearElrRecord
from trimaran.wire.schema import Message

R = TypeVar("R", incremental.AlterConfigsResource, legacy.AlterConfigsResource)

NONE = KafkaError(ErrorCode.NONE)


def alter_configs(
    request: incremental.IncrementalAlterConfigsRequest,
    image: MetadataImage,
    policies: Policies = NO_POLICIES,
    *,
    forwarded: bool = False,
    server: Mapping[str, Any] = NOTHING,
) -> Steps[Result[Message, incremental.IncrementalAlterConfigsResponse]]:
    """Changes the valid resources in one atomic batch, with a result for each resource; one step for each resource.
    `forwarded`: the request came through a broker; `server`: the configs of this node.

    Raises:
        KafkaError: POLICY_VIOLATION if the request is too large; nothing is changed.
    """
    records, errors = yield from _decide(
        request.resources, _incremental_changes, image, policies, forwarded=forwarded, server=server
    )
    return Result([] if request.validate_only else records, incremental_response(errors))


def replace_configs(
    request: legacy.AlterConfigsRequest,
    image: MetadataImage,
    policies: Policies = NO_POLICIES,
    *,
    forwarded: bool = False,
    server: Mapping[str, Any] = NOTHING,
) -> Steps[Result[Message, legacy.AlterConfigsResponse]]:
    """Replaces all configs of each resource: configs that the request does not name are deleted. See `alter_configs`.

    Raises:
        KafkaError: see `alter_configs`.
    """
    records, errors = yield from _decide(
        request.resources, _legacy_changes, image, policies, forwarded=forwarded, server=server
    )
    return Result([] if request.validate_only else records, legacy_response(errors))


def incremental_response(
    errors: Mapping[ConfigResource, KafkaError],
) -> incremental.IncrementalAlterConfigsResponse:
    """Returns a response with one result for each resource; NONE means success."""
    return incremental.IncrementalAlterConfigsResponse(
        responses=[
            incremental.AlterConfigsResourceResponse(
                error_code=error.code,
                error_message=error.message if error.code else None,
                resource_type=kind,
                resource_name=name,
            )
            for (kind, name), error in errors.items()
        ]
    )


def legacy_response(errors: Mapping[ConfigResource, KafkaError]) -> legacy.AlterConfigsResponse:
    """Returns the same response for AlterConfigs."""
    return legacy.AlterConfigsResponse(
        responses=[
            legacy.AlterConfigsResourceResponse(
                error_code=error.code,
                error_message=error.message if error.code else None,
                resource_type=kind,
                resource_name=name,
            )
            for (kind, name), error in errors.items()
        ]
    )


def fail_incremental(
    request: incremental.IncrementalAlterConfigsRequest, code: ErrorCode, message: str
) -> incremental.IncrementalAlterConfigsResponse:
    """Returns the response for a request that could not be decided at all."""
    error = KafkaError(code, message)
    return incremental_response({resource_of(resource): error for resource in request.resources})


def fail_legacy(
    request: legacy.AlterConfigsRequest, code: ErrorCode, message: str
) -> legacy.AlterConfigsResponse:
    """Returns the same response for AlterConfigs."""
    error = KafkaError(code, message)
    return legacy_response({resource_of(resource): error for resource in request.resources})


def resource_of(
    resource: incremental.AlterConfigsResource | legacy.AlterConfigsResource,
) -> ConfigResource:
    return resource.resource_type, resource.resource_name


def _decide(
    resources: Iterable[R],
    changes_of: Callable[[R, Mapping[str, str]], Changes],
    image: MetadataImage,
    policies: Policies,
    *,
    forwarded: bool,
    server: Mapping[str, Any],
) -> Steps[tuple[list[Message], dict[ConfigResource, KafkaError]]]:
    listed = list(resources)
    times = Counter(map(resource_of, listed))
    records: list[ConfigRecord] = []
    errors: dict[ConfigResource, KafkaError] = {}
    if sum(characters_of(each_resource.configs) for each_resource in listed) > CHARACTERS_MAX:
        raise too_much()
    for resource in listed:
        yield steps_of(resource.configs)
        kind, name = key = resource_of(resource)
        try:
            if times[key] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate resource.")
            if kind not in RESOURCE_TYPES or kind == BROKER_LOGGER_RESOURCE:
                raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Unknown resource type {kind}.")
            if len(resource.configs) > CONFIGS_MAX:
                raise KafkaError(
                    ErrorCode.POLICY_VIOLATION,
                    f"{len(resource.configs)} configs of one resource, {CONFIGS_MAX} are taken at once.",
                )
            present = image.configs.of(kind, name)
            changes = changes_of(resource, present)
            check(kind, name, present, changes, image, forwarded=forwarded, server=server)
            policies.check_configs(kind, name, changes)
            records += _records(kind, name, present, changes)
            errors[key] = NONE
        except KafkaError as error:
            errors[key] = error
    cleared: list[ClearElrRecord] = []
    if image.features.levels.get(ELR_VERSION, 0):
        cleared = _cleared_elrs(records)
    if len(records) + len(cleared) > RECORDS_MAX:
        raise too_much()
    return [*records, *cleared], errors


def _records(
    kind: int, name: str, present: Mapping[str, str], changes: Changes
) -> list[ConfigRecord]:
    """Returns the records of the changes. An unchanged config of a broker is also written, because it makes the broker
    read its files again (KAFKA-14136).
    """
    return [
        ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value)
        for key, value in changes.items()
        if kind == BROKER_RESOURCE or value != present.get(key)
    ]


def _cleared_elrs(records: Iterable[ConfigRecord]) -> list[ClearElrRecord]:
    """Returns records that clear ELRs: after a change of min.insync.replicas the eligible replicas may lack committed
    records (KIP-966). A record without a topic name clears all topics.
    """
    return [
        ClearElrRecord(
            topic_name=record.resource_name if record.resource_type == TOPIC_RESOURCE else ""
        )
        for record in records
        if record.name == MIN_ISR
    ]


def _legacy_changes(resource: legacy.AlterConfigsResource, present: Mapping[str, str]) -> Changes:
    _check_names([config.name for config in resource.configs])
    _check_values([config.name for config in resource.configs if config.value is None])
    given = {config.name: config.value for config in resource.configs}
    return {**given, **{key: None for key in present if key not in given}}


def _incremental_changes(
    resource: incremental.AlterConfigsResource, present: Mapping[str, str]
) -> Changes:
    configs = resource.configs
    _check_names([config.name for config in configs])
    for config in configs:
        if config.config_operation not in list(ConfigOperation):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"Unknown operations type {config.config_operation}"
            )
    _check_values(
        [
            config.name
            for config in configs
            if config.value is None and config.config_operation != ConfigOperation.DELETE
        ]
    )
    return {
        config.name: _new_value(config, resource.resource_type, present.get(config.name))
        for config in configs
    }


def _check_names(names: list[str]) -> None:
    if len(set(names)) != len(names):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")


def _check_values(missing: list[str]) -> None:
    if missing:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(missing)}"
        )


def _new_value(config: incremental.AlterableConfig, kind: int, present: str | None) -> str | None:
    operation, given = ConfigOperation(config.config_operation), config.value or ""
    if operation is ConfigOperation.DELETE:
        return None
    if operation is ConfigOperation.SET:
        return given
    key = key_of(kind, config.name)
    if kind == BROKER_RESOURCE and key is None:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown config name: {config.name}")
    if key is None or key.kind != "list":
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Config value {operation.name.lower()} is not allowed for config key: {config.name}"
            if kind == BROKER_RESOURCE
            else f"Can't {operation.name} to key {config.name} because its type is not LIST.",
        )
    default = ",".join(key.default)
    parts = [part for part in (default if present is None else present).split(",") if part]
    if operation is ConfigOperation.APPEND:
        there = set(parts)
        parts += [part for part in dict.fromkeys(given.split(",")) if part not in there]
    else:
        gone = set(given.split(","))
        parts = [part for part in parts if part not in gone]
    return ",".join(parts)
