"""The sources of a node's configs in order of precedence: alterations of this node, of all nodes, its file, the
defaults.

Source: `DynamicBrokerConfig`, `ConfigHelper.configSynonyms` of Kafka, KIP-226.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from itertools import dropwhile
from typing import NamedTuple

from trimaran.node.config.config_def import ConfigError, ConfigKey
from trimaran.node.config.config_source import ConfigSource
from trimaran.node.config.dynamic_keys import declared_key
from trimaran.node.config.server import ServerConfig
from trimaran.node.config.server_keys import SERVER_CONFIGS
from trimaran.node.config.synonyms import broker_synonyms
from trimaran.quorum.metadata.image import BROKER_RESOURCE, ConfigsImage

# The defaults as texts, of those keys that have one.
_DEFAULTS = {
    key.name: key.text_of(key.default)
    for key in SERVER_CONFIGS.values()
    if key.default is not None and not key.required and not key.undeclared
}


class ConfigSynonym(NamedTuple):
    """One source of a value, with the text set there."""

    name: str
    value: str
    source: ConfigSource


class NodeConfigLayers:
    """All settings of one node, according to the configs of one image."""

    def __init__(self, config: ServerConfig, configs: ConfigsImage) -> None:
        own = configs.of(BROKER_RESOURCE, str(config.node_id))
        self.of_all = configs.of(BROKER_RESOURCE, "")
        # The layers in order of precedence.
        self.layers: tuple[tuple[Mapping[str, str], ConfigSource], ...] = (
            (own, ConfigSource.DYNAMIC_BROKER),
            (self.of_all, ConfigSource.DYNAMIC_DEFAULT_BROKER),
            (config.texts, ConfigSource.STATIC_BROKER),
        )

    @cached_property
    def texts(self) -> Mapping[str, str]:
        """Returns the effective values of all configs that are set, by name."""
        own, of_all, file = (texts for texts, _ in self.layers)
        return _in_force(file, of_all, own)

    def of(self, name: str) -> list[ConfigSynonym]:
        """Returns the settings of a config and its synonyms, the effective one first. As in Kafka, the list starts at
        the first entry with exactly this name.
        """
        names = broker_synonyms(name)
        found = [
            ConfigSynonym(each_name, texts[each_name], source)
            for texts, source in (*self.layers, (_DEFAULTS, ConfigSource.DEFAULT))
            for each_name in names
            if each_name in texts
        ]
        return list(dropwhile(lambda setting: setting.name != name, found))

    def value(self, name: str) -> str | None:
        """Returns the text of the effective value: a declared config's in Kafka's format, any other's as it was set."""
        key, text = declared_key(name), self.texts.get(name)
        if key is None or key.name != name or key.internal:
            return text
        return _DEFAULTS.get(name) if text is None else text_of(key, text)


def text_of(key: ConfigKey, text: str) -> str:
    """Returns the value in Kafka's format; `text` itself if it is invalid, which a log from Kafka may contain."""
    try:
        return key.text_of(key.parse_stored(text))
    except ConfigError:
        return text


def _in_force(*layers: Mapping[str, str]) -> dict[str, str]:
    """Merges the layers: a later layer overrides earlier ones, including their synonyms of the same config."""
    texts: dict[str, str] = {}
    for layer in layers:
        for name in layer:
            for synonym in broker_synonyms(name, of_listeners=False):
                texts.pop(synonym, None)
        texts |= layer
    return texts
