"""Whether a resource may have the configs that a request gives it. Source: Kafka's `ControllerConfigurationValidator`,
`ConfigurationControlManager`, KIP-966. One table a kind of resource says what there is (`trimaran.node.config`).
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
    RESOURCE_TYPES,
    TOPIC_RESOURCE,
    MetadataImage,
)
from trimaran.quorum.metadata.topic_names import why_illegal
from trimaran.quorum.replica.node import BATCH_BYTES_MAX
from trimaran.wire.errors import ErrorCode, KafkaError

MIN_ISR = "min.insync.replicas"
# Bytes; longer ones do not fit a record. Kafka counts characters, and its controller gives up over what then does not
# fit.
VALUE_SIZE_MAX = 0x7FFF

# The bound for all configs of a request: as much as one change of metadata can hold.
CHARACTERS_MAX = BATCH_BYTES_MAX
# The bound for one resource of a request: more than there are keys, with those of listeners and of plug-ins.
CONFIGS_MAX = 2_000
# Configs of a broker, or of all of them, that nothing here declares; plug-ins have some, and each look at a broker's
# configs passes all of them.
UNDECLARED_MAX = 1_000
# A decision checks this many characters in 20 µs, the time of one step.
_CHARACTERS_PER_STEP = 100

CORDONED = "cordoned.log.dirs"

Changes = Mapping[str, str | None]


class GivenConfig(Protocol):
    """One that a request gives."""

    name: str
    value: str | None


def characters_of(configs: Iterable[GivenConfig]) -> int:
    """Returns how long they are, names and values."""
    return sum(len(config.name) + len(config.value or "") for config in configs)


def steps_of(configs: Iterable[GivenConfig]) -> int:
    """Returns how many steps of a decision it is to check them."""
    return 1 + characters_of(configs) // _CHARACTERS_PER_STEP


def key_of(kind: int, name: str) -> ConfigKey | None:
    """Returns the declaration of a config. Only topics and brokers have lists that grow (KIP-339)."""
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
    """Looks at a resource as it would be afterwards. A broker's config may be taken away, unless those that stay do not
    fit together without it.

    `forwarded`: the broker that the client asked has looked at what only it can know. `server`: the configs of this
    node, which bound those of groups.

    Raises:
        KafkaError: why it cannot be.
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
        else:
            raise _invalid(f"Unknown resource type {RESOURCE_TYPES.get(kind, 'UNKNOWN')}")
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, error.answer) from error


def _check_changes(kind: int, name: str, changes: Changes, image: MetadataImage) -> None:
    if any(len((value or "").encode()) > VALUE_SIZE_MAX for value in changes.values()):
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            "The configuration value cannot be added because it exceeds the maximum value size of "
            f"{VALUE_SIZE_MAX} bytes.",
        )
    if kind != BROKER_RESOURCE or MIN_ISR not in changes:
        return
    if not image.features.levels.get(ELR_VERSION, 0):
        return
    if name:
        message = f"Broker-level {MIN_ISR} cannot be altered while ELR is enabled."
        raise KafkaError(ErrorCode.INVALID_CONFIG, message)
    if changes[MIN_ISR] is None:
        message = f"Cluster-level {MIN_ISR} cannot be removed while ELR is enabled."
        raise KafkaError(ErrorCode.INVALID_CONFIG, message)


def _check_cordoned(
    present: Mapping[str, str], changes: Changes, image: MetadataImage, *, forwarded: bool
) -> None:
    """A controller knows the ids of directories, not their paths: asked by itself it lets entries
    only go (KIP-1066).
    """
    if image.features.metadata_version < versions.CORDONED_LOG_DIRS:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"The {CORDONED} configuration value cannot be set because it requires metadata.version >= "
            f"{versions.release_name(versions.CORDONED_LOG_DIRS)}",
        )
    if not forwarded and not _entries(changes[CORDONED]) <= _entries(present.get(CORDONED)):
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"When updating {CORDONED} via controllers,  the new value must be a subset of the current configuration "
            f"value.",
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
        if str(broker_id) != name:  # Kafka keeps configs of "011", which no broker reads
            raise _invalid(f"Write the id of the broker as {broker_id}.")
        if broker_id < 0:
            raise _invalid("Invalid negative broker ID.")
    given = {key: value for key, value in changes.items() if value is not None}
    check_broker_configs(given, of_one_broker=bool(name))
    _check_undeclared(present, given)
    cluster = image.cluster
    if name and int(name) not in cluster.brokers and int(name) not in cluster.controllers:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"No node with id {int(name)} found.")


# Configs of one broker, configs of all brokers, and typed values of this node's file, as other files are not known.
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


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
