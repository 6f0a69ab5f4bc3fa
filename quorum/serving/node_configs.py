"""The effective configs of a node: those altered for this node, those altered for all nodes, those in its file, and the
defaults, in this order.

Source: `DynamicBrokerConfig` of Kafka, KIP-226. Topics add their own configs (`broker/metadata/topic_settings.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trimaran.node.config.server import LISTENER_PREFIX, ServerConfig
from trimaran.node.config.server_keys import DYNAMIC_ONLY, SERVER_CONFIGS
from trimaran.quorum.metadata.image import BROKER_RESOURCE, ConfigsImage


class NodeConfigs:
    """The effective configs; `configs` returns the newest image and is called each time."""

    def __init__(self, config: ServerConfig, configs: Callable[[], ConfigsImage]) -> None:
        self._config = config
        self._configs = configs
        # The last image and its values, cached because each Produce of a transaction reads one.
        self._image: ConfigsImage | None = None
        self._values: dict[str, Any] = {}

    def now(self, key: str) -> Any:
        """Returns the typed value of a key of `SERVER_CONFIGS` or `DYNAMIC_ONLY`; callers must not modify it."""
        image = self._configs()
        if image is not self._image:
            self._image, self._values = image, {}
        try:
            return self._values[key]
        except KeyError:
            value = self._values[key] = self._look_up(key)
            return value

    def _look_up(self, key: str) -> Any:
        definition = DYNAMIC_ONLY.get(key) or SERVER_CONFIGS[key]
        text = self._altered(key)
        if text is not None:
            return definition.parse_stored(text)
        return definition.default if key in DYNAMIC_ONLY else self._config[key]

    def now_of_listener(self, listener: str, key: str) -> Any:
        """Returns the value of a key that can be set for one listener; otherwise returns the value of the node."""
        text = self._altered(f"{LISTENER_PREFIX}{listener.lower()}.{key}")
        if text is not None:
            return SERVER_CONFIGS[key].parse_stored(text)
        if self._config.is_set_for_listener(listener, key):
            return self._config.of_listener(listener, key)
        return self.now(key)

    def _altered(self, name: str) -> str | None:
        configs = self._configs()
        for resource in (str(self._config.node_id), ""):
            text = configs.of(BROKER_RESOURCE, resource).get(name)
            if text is not None:
                return text
        return None
