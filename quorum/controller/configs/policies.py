"""An operator's own rules for creating topics and altering configs.

The rules are functions of the operator's package, named by their entry points in `create.topic.policy.class.name` and
`alter.config.policy.class.name`. Each returns None or the reason of a refusal, which the client receives with
POLICY_VIOLATION. If a function raises, the request is refused. They run on the controller's loop, so they must not
block. Source: KIP-108, KIP-133. Not implemented: Java classes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any

from trimaran.node.config.config_def import ConfigError
from trimaran.node.config.server import ServerConfig
from trimaran.quorum import events
from trimaran.quorum.metadata.image import RESOURCE_TYPES
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import BrokerId

log = logging.getLogger(__name__)

CREATE_TOPIC = "create.topic.policy.class.name"
ALTER_CONFIG = "alter.config.policy.class.name"
GROUPS = {
    CREATE_TOPIC: "trimaran.policy.create_topic",
    ALTER_CONFIG: "trimaran.policy.alter_config",
}


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to be created; `assignments` maps partitions to replicas, if the client chose them."""

    name: str
    partitions: int
    replication_factor: int
    assignments: Mapping[int, Sequence[BrokerId]] | None
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class AlteredConfigs:
    """The new values of configs; `resource_type` is Kafka's name of the type, such as TOPIC."""

    resource_type: str
    resource_name: str
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Policies:
    """The rules for creating topics and altering configs; None allows everything."""

    create_topic: Callable[[NewTopic], str | None] | None = None
    alter_config: Callable[[AlteredConfigs], str | None] | None = None

    def check_topic(self, topic: NewTopic) -> None:
        """Raises KafkaError POLICY_VIOLATION if the rule refuses the topic."""
        _apply_policy(CREATE_TOPIC, self.create_topic, topic)

    def check_configs(self, kind: int, name: str, changes: Mapping[str, str | None]) -> None:
        """Checks new values; a deleted config has no value to check. Raises KafkaError POLICY_VIOLATION."""
        if self.alter_config is not None:
            configs = {key: value for key, value in changes.items() if value is not None}
            altered = AlteredConfigs(RESOURCE_TYPES[kind], name, configs)
            _apply_policy(ALTER_CONFIG, self.alter_config, altered)


NO_POLICIES = Policies()


def _apply_policy(key: str, policy: Callable[[Any], str | None] | None, asked: object) -> None:
    if policy is None:
        return
    try:
        why = policy(asked)
    except Exception:  # the request is refused  # noqa: BLE001 - it is logged, with its traceback
        events.POLICY_FAILED.log(log, exc_info=True, key=key)
        why = f"the policy of {key} failed"
    if why is not None:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, str(why))


def policies_of(config: ServerConfig) -> Policies:
    """Returns the policies that the configuration names.

    Raises:
        ConfigError: an entry point does not exist or cannot be loaded.
    """
    return Policies(_load(config, CREATE_TOPIC), _load(config, ALTER_CONFIG))


def _load(config: ServerConfig, key: str) -> Callable[[Any], str | None] | None:
    name, group = config[key], GROUPS[key]
    if not name:
        return None
    found = [entry_point for entry_point in entry_points(group=group) if entry_point.name == name]
    why = f"there is no entry point of this name in the group {group}; classes of Java do not run here"
    try:
        (one,) = found
        policy: Callable[[Any], str | None] = one.load()
    except (ValueError, ImportError, AttributeError) as error:
        raise _unusable(config, key, f"it cannot be loaded: {error}" if found else why) from None
    if not callable(policy):
        raise _unusable(config, key, "it is no function")
    return policy


def _unusable(config: ServerConfig, key: str, why: str) -> ConfigError:
    return ConfigError(
        key,
        config[key],
        why,
        origin=config.origins.get(key, ""),
        fix=f"write the policy as a function in Python, give it an entry point in {GROUPS[key]}, and install it",
    )
