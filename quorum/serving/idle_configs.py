"""Altered configs that have no effect here: the node logs the reason, once for each key.

They are accepted anyway, because Kafka's tools set some of them: a reassignment with `--throttle` alters throttles.
"""

from __future__ import annotations

import logging

from trimaran.node.config.client_metrics_keys import CLIENT_METRICS_CONFIGS
from trimaran.node.config.config_def import ConfigKey
from trimaran.node.config.dynamic_keys import declared_key, dynamic_key
from trimaran.node.config.group_keys import GROUP_CONFIGS
from trimaran.node.config.topic_keys import TOPIC_CONFIGS
from trimaran.quorum import events
from trimaran.quorum.metadata.delta import MetadataDelta
from trimaran.quorum.metadata.image import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    MetadataImage,
)
from trimaran.quorum.metadata.loader import Manifest
from trimaran.wire.identity import NodeId

log = logging.getLogger(__name__)

# The maximum number of undeclared keys in warnings. A client can send any number of unknown names; more than a few are
# not typing errors.
UNDECLARED_MAX = 100

_TABLES = {
    TOPIC_RESOURCE: TOPIC_CONFIGS,
    GROUP_RESOURCE: GROUP_CONFIGS,
    CLIENT_METRICS_RESOURCE: CLIENT_METRICS_CONFIGS,
}


class IdleConfigs:
    """A `Publisher` that warns once for each key of a kind of resource, and for at most `UNDECLARED_MAX` undeclared
    keys.
    """

    def __init__(self, node_id: NodeId) -> None:
        self._nodes = (str(node_id), "")
        self._told: set[tuple[int, str]] = set()
        self._undeclared = 0

    def publish(self, delta: MetadataDelta, _image: MetadataImage, _manifest: Manifest) -> None:
        for (kind, resource), changes in delta.configs.changed.items():
            if kind == BROKER_RESOURCE and resource not in self._nodes:
                continue
            for name, value in changes.items():
                if value is not None and (kind, name) not in self._told:
                    self._warn(kind, resource, name)

    def _warn(self, kind: int, resource: str, name: str) -> None:
        why = self._why_idle(kind, name)
        if why:
            self._told.add((kind, name))
            events.CONFIG_WITHOUT_EFFECT.log(
                log, config=name, resource=resource or "all", reason=why
            )

    def _why_idle(self, kind: int, name: str) -> str:
        """Returns the reason why the config has no effect here; empty if it has an effect."""
        if kind == BROKER_RESOURCE and declared_key(name) is None:
            self._undeclared += 1
            if self._undeclared > UNDECLARED_MAX:
                return ""
            return "it is not a config of brokers, and no plug-in reads it"
        key = _key_of(kind, name)
        return "" if key is None else key.no_effect or key.no_effect_while_running


def _key_of(kind: int, name: str) -> ConfigKey | None:
    if kind == BROKER_RESOURCE:
        return dynamic_key(name)
    return _TABLES[kind].get(name) if kind in _TABLES else None
