"""Checks whether a resource may have the configs that a request sets.

One table for each kind of resource defines its configs (`trimaran.node.config`). Source: Kafka's
`ControllerConfigurationValidator`, `ConfigurationControlManager`, KIP-966.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Protocol

from trimaran.node.config.altered_together import check_together
from trimaran.node.config.client_metrics_keys import check_client_metrics_configs
from trimaran.node.config.config_def import ConfigError, ConfigKey
from trimaran.node.config.dynamic_keys import check_broker_configs, declared_key, dynamic_key
from trimaran.node.config.group_keys import NOTHING, check_group_configs
from trimaran.node.config.server_keys import SERVER_CONFIGS
from trimaran.node.config.topic_keys import TOPIC_CONFIGS, check_topic_configs
from trimaran.quorum.metadata import versions
from trimaran.quorum.metadata.features import ELR_VERSION
from trimaran.quorum.metadata.image import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    MetadataImage,
)
from trimaran.quorum.metadata.topic_names import why_illegal
from trimaran.quorum.replica.node import BATCH_BYTES_MAX
from trimaran.wire.errors import ErrorCode, KafkaError

MIN_ISR = "min.insync.replicas"
# The maximum size of a value in bytes; longer values do not fit a record. Kafka counts characters, and its controller
# fails on values that do not fit.
VALUE_SIZE_MAX = 0x7FFF

# The bound for all configs of a request: the maximum size of one metadata change.
CHARACTERS_MAX = BATCH_BYTES_MAX
# The bound for one resource of a request: more than all keys, including those of listeners and plug-ins.
CONFIGS_MAX = 2_000
# The bound for configs of one broker, or of the default broker, that are not declared here. Plug-ins have a few such
# configs, and each check of a broker's configs iterates over all of them.
UNDECLARED_MAX = 1_000
# The number of characters that a decision checks in 20 µs, the duration of one step.
_CHARACTERS_PER_STEP = 100

CORDONED = "cordoned.log.dirs"

Changes = Mapping[str, str | None]


class GivenConfig(Protocol):
    """A config entry of a request."""

    name: str
    value: str | None


def characters_of(configs: Iterable[GivenConfig]) -> int:
    """Returns the total length of the configs' names and values."""
    return sum(len(config.name) + len(config.value or "") for config in configs)


def steps_of(configs: Iterable[GivenConfig]) -> int:
    """Returns the number of steps that checking the configs takes."""
    return 1 + characters_of(configs) // _CHARACTERS_PER_STEP


def key_of(kind: int, name: str) -> ConfigKey | None:
    """Returns the declaration of a config. Only topics and brokers have appendable lists (KIP-339)."""
    if kind == TOPIC_RESOURCE:
        return TOPIC_CONFIGS.get(name)
    return dynamic_key(name) if kind == BROKER_RESOURCE else None


def check(
    kind: int,
    name: str,
    present: Mapping[str, str],
    changes: Changes,
    image: MetadataImage,
    *,
    forwarded: bool,
    server: Mapping[str, Any] = NOTHING,
) -> None:
    """Checks the configs that a resource of a known kind would have after the change. A broker's config may be deleted
    unless the remaining ones are inconsistent without it.

    `forwarded`: the broker that received the request has already made the checks that only this broker can make.
    `server`: the configs of this node, which bound those of groups.

    Raises:
        KafkaError: the change is not allowed; the message gives the reason.
    """
    _check_changes(kind, name, changes, image)
    if kind == BROKER_RESOURCE and CORDONED in changes:
        _check_cordoned(present, changes, image, forwarded=forwarded)
    after = {key: value for key, value in {**present, **changes}.items() if value is not None}
    try:
        if kind == TOPIC_RESOURCE:
            _check_topic(name, after, image)
        elif kind == BROKER_RESOURCE:
            _check_broker(name, present, changes, image)
            of_all = image.configs.of(BROKER_RESOURCE, "") if name else {}
            _check_together((present, of_all, server), (after, of_all, server), changes)
        elif kind == CLIENT_METRICS_RESOURCE:
            if not name:
                raise _invalid("Subscription name can't be empty")
            check_client_metrics_configs(after)
        elif kind == GROUP_RESOURCE:
            if not name:
                raise _invalid("Default group resources are not allowed.")
            check_group_configs(after, server)
    except ConfigError as error:
        raise _invalid_config(error.answer) from error


def _check_changes(kind: int, name: str, changes: Changes, image: MetadataImage) -> None:
    if any(len((value or "").encode()) > VALUE_SIZE_MAX for value in changes.values()):
        raise _invalid_config(
            "The configuration value cannot be added because it exceeds the maximum value size of "
            f"{VALUE_SIZE_MAX} bytes."
        )
    if kind != BROKER_RESOURCE or MIN_ISR not in changes:
        return
    if not image.features.levels.get(ELR_VERSION, 0):
        return
    if name:
        raise _invalid_config(f"Broker-level {MIN_ISR} cannot be altered while ELR is enabled.")
    if changes[MIN_ISR] is None:
        raise _invalid_config(f"Cluster-level {MIN_ISR} cannot be removed while ELR is enabled.")


def _check_cordoned(
    present: Mapping[str, str], changes: Changes, image: MetadataImage, *, forwarded: bool
) -> None:
    """Checks cordoned.log.dirs. The controller knows only directory ids, not paths, so a request sent directly to it
    may only remove entries (KIP-1066).
    """
    if image.features.metadata_version < versions.CORDONED_LOG_DIRS:
        raise _invalid_config(
            f"The {CORDONED} configuration value cannot be set because it requires metadata.version >= "
            f"{versions.release_name(versions.CORDONED_LOG_DIRS)}"
        )
    if not forwarded and not _entries(changes[CORDONED]) <= _entries(present.get(CORDONED)):
        raise _invalid_config(
            f"When updating {CORDONED} via controllers,  the new value must be a subset of the current configuration "
            f"value."
        )


def _entries(value: str | None) -> set[str]:
    return set(SERVER_CONFIGS[CORDONED].parse_stored(value or ""))


def _check_topic(name: str, configs: Mapping[str, str], image: MetadataImage) -> None:
    if not name:
        raise _invalid("Default topic resources are not allowed.")
    if (why := why_illegal(name)) is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, why)
    check_topic_configs(configs)
    if name not in image.topics.by_name:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist."
        )


def _check_undeclared(present: Mapping[str, str], given: Mapping[str, str]) -> None:
    if all(key in present or declared_key(key) is not None for key in given):
        return
    count = sum(declared_key(key) is None for key in {**present, **given})
    if count > UNDECLARED_MAX:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"{count} configs that are not of brokers, {UNDECLARED_MAX} are kept: delete some first.",
        )


def _check_broker(
    name: str, present: Mapping[str, str], changes: Changes, image: MetadataImage
) -> None:
    if name:
        try:
            broker_id = int(name)
        except ValueError:
            raise _invalid("Unable to parse broker name as a base 10 number.") from None
        if str(broker_id) != name:  # Kafka stores configs of "011", which no broker reads
            raise _invalid(f"Write the id of the broker as {broker_id}.")
        if broker_id < 0:
            raise _invalid("Invalid negative broker ID.")
    given = {key: value for key, value in changes.items() if value is not None}
    check_broker_configs(given, of_one_broker=bool(name))
    _check_undeclared(present, given)
    cluster = image.cluster
    if name and int(name) not in cluster.brokers and int(name) not in cluster.controllers:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"No node with id {int(name)} found.")


# Configs of one broker, configs of all brokers, and typed values of this node's file; other nodes' files are unknown.
_Layers = tuple[Mapping[str, str], Mapping[str, str], Mapping[str, Any]]


def _check_together(before: _Layers, after: _Layers, changes: Changes) -> None:
    try:
        check_together(changes, partial(_value_in, before), partial(_value_in, after))
    except ConfigError as error:
        raise _invalid(error.answer) from error


def _value_in(layers: _Layers, key: str) -> Any:
    own, of_all, server = layers
    text = own.get(key, of_all.get(key))
    if text is not None:
        return SERVER_CONFIGS[key].parse_stored(text)
    return server[key] if key in server else SERVER_CONFIGS[key].default


def _invalid_config(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, message)


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
