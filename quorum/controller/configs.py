"""IncrementalAlterConfigs: every resource is checked as it would be afterwards, and changed as a whole or not at all.

Source: Kafka's `ConfigurationControlManager`, `ControllerConfigurationValidator`, `DynamicBrokerConfig`. Left out: policies, loggers,
configs of groups and of client metrics, prefixes of listeners.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from quorum.config.definition import ConfigDef, ConfigError
from quorum.config.server_keys import SERVER_CONFIGS
from quorum.config.topic_keys import TOPIC_CONFIGS, check_topic_configs
from quorum.controller.topics import RECORDS_MAX
from quorum.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE, MetadataImage
from quorum.metadata.topic_names import why_illegal
from quorum.runtime.deferred import Result
from wire.errors import ErrorCode, KafkaError
from wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from wire.records.configs import ConfigRecord
from wire.schema import Message

SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
# Longer ones would not fit the strings of older versions. Kafka's number.
VALUE_SIZE_MAX = 0x7FFF


def alter_configs(
    request: IncrementalAlterConfigsRequest, image: MetadataImage
) -> Result[Message, IncrementalAlterConfigsResponse]:
    """All resources that can be changed, in one atomic batch; each is answered by itself.

    Raises:
        KafkaError: POLICY_VIOLATION, too much at once; nothing is changed.
    """
    times = Counter((one.resource_type, one.resource_name) for one in request.resources)
    records: list[Message] = []
    responses: dict[tuple[int, str], AlterConfigsResourceResponse] = {}
    for resource in request.resources:
        key = (resource.resource_type, resource.resource_name)
        if key in responses:
            continue
        code, message = ErrorCode.NONE, None
        try:
            if times[key] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate resource.")
            records += _alter(resource, image)
        except KafkaError as error:
            code, message = error.code, error.message
        responses[key] = AlterConfigsResourceResponse(
            error_code=code, error_message=message, resource_type=key[0], resource_name=key[1]
        )
    if len(records) > RECORDS_MAX:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION, f"one request may make at most {RECORDS_MAX} changes"
        )
    response = IncrementalAlterConfigsResponse(responses=list(responses.values()))
    return Result([] if request.validate_only else records, response)


def _alter(resource: AlterConfigsResource, image: MetadataImage) -> list[Message]:
    kind, name = resource.resource_type, resource.resource_name
    if kind not in (TOPIC_RESOURCE, BROKER_RESOURCE):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"configs of resource type {kind} cannot be set here"
        )
    _check_operations(resource.configs)
    table = TOPIC_CONFIGS if kind == TOPIC_RESOURCE else SERVER_CONFIGS
    present = image.configs.of(kind, name)
    changes = {one.name: _new_value(one, table, present.get(one.name)) for one in resource.configs}
    after = {k: v for k, v in {**present, **changes}.items() if v is not None}
    try:
        if kind == TOPIC_RESOURCE:
            _check_topic(name, after, image)
        else:
            _check_broker(name, changes, image)
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error
    # An unchanged config of a broker is written all the same: it makes the broker read its files again (KAFKA-14136).
    return [
        ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value)
        for key, value in changes.items()
        if kind == BROKER_RESOURCE or value != present.get(key)
    ]


def _check_operations(configs: list[AlterableConfig]) -> None:
    names = [one.name for one in configs]
    why = None
    if len(set(names)) != len(names):
        why = "a key is named twice"
    elif any(one.config_operation not in (SET, DELETE, APPEND, SUBTRACT) for one in configs):
        why = "an operation is unknown"
    elif missing := [
        one.name for one in configs if one.value is None and one.config_operation != DELETE
    ]:
        why = f"no value is given for {', '.join(missing)}"
    if why is not None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, why)


def _new_value(config: AlterableConfig, table: ConfigDef, present: str | None) -> str | None:
    given = config.value or ""
    if config.config_operation == DELETE:
        return None
    if config.config_operation == SET:
        value = given
    else:
        key = table.get(config.name)
        if key is None or key.kind != "list":
            raise KafkaError(
                ErrorCode.INVALID_CONFIG, f"{config.name} is no list: set it, or delete it"
            )
        default = ",".join(key.default or [])
        parts = [part for part in (present if present is not None else default).split(",") if part]
        if config.config_operation == APPEND:
            parts += [part for part in given.split(",") if part not in parts]
        else:
            parts = [part for part in parts if part not in given.split(",")]
        value = ",".join(parts)
    if len(value) > VALUE_SIZE_MAX:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"the value of {config.name} has {len(value)} characters, {VALUE_SIZE_MAX} are allowed",
        )
    return value


def _check_topic(name: str, configs: Mapping[str, str], image: MetadataImage) -> None:
    if (why := why_illegal(name)) is not None:
        code = ErrorCode.INVALID_TOPIC_EXCEPTION if name else ErrorCode.INVALID_REQUEST
        raise KafkaError(code, why)
    check_topic_configs(configs)
    if name not in image.topics.by_name:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")


def _check_broker(name: str, changes: Mapping[str, str | None], image: MetadataImage) -> None:
    """Taking a config away is always allowed: nobody should be stuck with what an older version wrote."""
    if name and not name.isdecimal():
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name!r} is no id of a broker")
    for key, value in changes.items():
        if value is None:
            continue
        known = SERVER_CONFIGS.get(key)
        if known is None:
            raise ConfigError(key, value, "unknown configuration key of a broker")
        if known.scope == "read-only":
            raise ConfigError(key, value, "cannot be changed while a broker runs")
        if known.scope == "per-broker" and not name:
            raise ConfigError(key, value, "can only be set for one broker at a time")
        known.parse(value)
    cluster = image.cluster
    if name and int(name) not in cluster.brokers and int(name) not in cluster.controllers:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"node {name} is not registered")
