"""Altered configs that change nothing here: who altered them finds the reason in the log of the nodes, once for each
key.

They are taken all the same, as Kafka's tools set some on their way: a reassignment with `--throttle` alters throttles.
"""

from __future__ import annotations

import logging

from node.config.client_metrics_keys import CLIENT_METRICS_CONFIGS
from node.config.config_def import ConfigKey
from node.config.dynamic_keys import dynamic_key
from node.config.group_keys import GROUP_CONFIGS
from node.config.topic_keys import TOPIC_CONFIGS
from quorum import events
from quorum.metadata.delta import MetadataDelta
from quorum.metadata.image import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    MetadataImage,
)
from quorum.metadata.loader import Manifest

log = logging.getLogger(__name__)

_TABLES = {
    TOPIC_RESOURCE: TOPIC_CONFIGS,
    GROUP_RESOURCE: GROUP_CONFIGS,
    CLIENT_METRICS_RESOURCE: CLIENT_METRICS_CONFIGS,
}


class IdleConfigs:
    """A `Publisher`. Of a kind of resource it warns of each key once: at most as often as there are keys."""

    def __init__(self, node_id: int) -> None:
        self._nodes = (str(node_id), "")
        self._told: set[tuple[int, str]] = set()

    def publish(self, delta: MetadataDelta, _image: MetadataImage, _manifest: Manifest) -> None:
        for (kind, resource), changes in delta.configs.changed.items():
            if kind == BROKER_RESOURCE and resource not in self._nodes:
                continue
            for name, value in changes.items():
                if value is not None and (kind, name) not in self._told:
                    self._warn(kind, resource, name)

    def _warn(self, kind: int, resource: str, name: str) -> None:
        key = _key_of(kind, name)
        why = key and (key.no_effect or key.no_effect_while_running)
        if why:
            self._told.add((kind, name))
            events.CONFIG_WITHOUT_EFFECT.log(
                log, config=name, resource=resource or "all", reason=why
            )


def _key_of(kind: int, name: str) -> ConfigKey | None:
    if kind == BROKER_RESOURCE:
        return dynamic_key(name)
    return _TABLES[kind].get(name) if kind in _TABLES else None
