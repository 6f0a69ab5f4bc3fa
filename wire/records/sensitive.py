"""The secret configs: passwords, and all undeclared configs, which may be secrets of plug-ins.

This is the only rule for all views of configs: DescribeConfigs, the mirror's znodes, JSON of records, events, tables of
Spark.

Source: `KafkaConfig.maybeSensitive` and `KafkaConfigSchema.isSensitive` of Kafka.
"""

from __future__ import annotations

import re

from trimaran.wire.records.config_names import (
    BROKER_CONFIGS,
    CLIENT_METRICS_CONFIGS,
    GROUP_CONFIGS,
    TOPIC_CONFIGS,
)

# `ConfigResource.Type` of Kafka.
_TOPIC, _BROKER, _BROKER_LOGGER, _CLIENT_METRICS, _GROUP = 2, 4, 8, 16, 32
_TOLD = {_TOPIC: TOPIC_CONFIGS, _BROKER: BROKER_CONFIGS, _GROUP: GROUP_CONFIGS}
_TOLD_OF_ANY = TOPIC_CONFIGS | BROKER_CONFIGS | GROUP_CONFIGS | CLIENT_METRICS_CONFIGS

LISTENER_KEY = re.compile(r"listener\.name\.[^.]*\.(?P<base>.*)")
# Set for one mechanism of a listener: `listener.name.LISTENER.MECHANISM.KEY`.
_KEYS_OF_MECHANISMS = (
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
    "connections.max.reauth.ms",
)


def is_sensitive(name: str, resource_type: int | None = None) -> bool:
    """Whether the value is hidden; the type None means a resource of unknown type."""
    if resource_type in (_BROKER_LOGGER, _CLIENT_METRICS):
        return False
    told = _TOLD_OF_ANY if resource_type is None else _TOLD.get(resource_type, frozenset())
    if name in told:
        return False
    base = base_of(name) if resource_type in (None, _BROKER) else None
    return base not in BROKER_CONFIGS


def base_of(name: str) -> str | None:
    """Returns KEY of `listener.name.LISTENER.KEY` and of `listener.name.LISTENER.MECHANISM.KEY`; None for other
    names.
    """
    found = LISTENER_KEY.fullmatch(name)
    if found is None:
        return None
    base = found["base"]
    return next((key for key in _KEYS_OF_MECHANISMS if base.endswith(key)), base)
