"""The entries of DescribeConfigs for topics, groups, subscriptions and this node: values, sources and synonyms.

Source: `ConfigHelper` and `DynamicBrokerConfig` of Kafka, KIP-226 (sources and synonyms). Sensitive values are never
returned.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from trimaran.node.config.client_metrics_keys import CLIENT_METRICS_CONFIGS
from trimaran.node.config.config_def import ConfigKey, ConfigTypeId
from trimaran.node.config.config_source import ConfigSource
from trimaran.node.config.dynamic_keys import SECURITY, declared_key
from trimaran.node.config.group_keys import GROUP_CONFIGS, broker_synonym
from trimaran.node.config.loggers import logger_levels
from trimaran.node.config.server import ServerConfig
from trimaran.node.config.server_keys import SERVER_CONFIGS
from trimaran.node.config.topic_keys import SERVER_SYNONYMS, TOPIC_CONFIGS
from trimaran.quorum.metadata.image import (
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    ConfigsImage,
)
from trimaran.quorum.serving.config_sources import ConfigSynonym, NodeConfigLayers, text_of
from trimaran.wire.messages.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsSynonym,
)

# The configs that a node describes even if they are not set. Configs of ZooKeeper are described only if the mirror of
# this node uses them.
_OF_ALL_NODES = frozenset(
    key.name
    for key in SERVER_CONFIGS.values()
    if not (key.internal or key.undeclared or key.name.startswith("zookeeper."))
)


class ConfigDescription:
    """Describes configs by one image."""

    def __init__(
        self, config: ServerConfig, configs: ConfigsImage, *, synonyms: bool, documentation: bool
    ) -> None:
        self._configs = configs
        self._node = NodeConfigLayers(config, configs)
        self._synonyms = synonyms
        self._documentation = documentation

    def topic(self, name: str, wanted: Iterable[str] | None) -> list[DescribeConfigsResourceResult]:
        """Returns all configs of a topic, or those in `wanted` that exist."""
        own = self._configs.of(TOPIC_RESOURCE, name)
        return [self._topic_config(key, own) for key in _chosen(TOPIC_CONFIGS, wanted)]

    def _topic_config(
        self, key: ConfigKey, own: Mapping[str, str]
    ) -> DescribeConfigsResourceResult:
        servers = SERVER_SYNONYMS.get(key.name, ())
        settings = [*_own(own, key, ConfigSource.TOPIC)]
        value = settings[0].value if settings else self._topic_default(key)
        settings += self._node.of(servers[0].key) if servers else []
        return self._result(key.name, key, value, settings)

    def _topic_default(self, key: ConfigKey) -> str | None:
        """Returns the value for topics that do not set the config."""
        for server_key, factor in SERVER_SYNONYMS.get(key.name, ()):
            text = self._node.texts.get(server_key)
            if text is not None:
                return text_of(key, _scaled(text, factor))
        return None if key.default is None else key.text_of(key.default)

    def created_topic(
        self, own: Mapping[str, str], wanted: Iterable[str] | None = None
    ) -> Iterator[ConfigSynonym]:
        """Yields the configs in the CreateTopics response for a topic that sets `own`: each with its effective text and
        its name as a topic config. Source: `KafkaConfigSchema.resolveEffectiveTopicConfigs`.
        """
        for key in _chosen(TOPIC_CONFIGS, wanted):
            if key.name in own:
                yield ConfigSynonym(key.name, own[key.name], ConfigSource.TOPIC)
            else:
                yield self._created_default(key)

    def _created_default(self, key: ConfigKey) -> ConfigSynonym:
        for texts, source in self._node.layers:
            for server_key, factor in SERVER_SYNONYMS.get(key.name, ()):
                if server_key in texts:
                    return ConfigSynonym(key.name, _scaled(texts[server_key], factor), source)
        return ConfigSynonym(key.name, key.text_of(key.default), ConfigSource.DEFAULT)

    def group(self, name: str, wanted: Iterable[str] | None) -> list[DescribeConfigsResourceResult]:
        """Returns all configs of a group, even if the group does not exist; internal ones only if they are set for the
        group or on this node.
        """
        own = self._configs.of(GROUP_RESOURCE, name)
        return [
            self._group_config(key, own)
            for key in _chosen(GROUP_CONFIGS, wanted)
            if not key.internal or key.name in own or broker_synonym(key.name) in self._node.texts
        ]

    def _group_config(
        self, key: ConfigKey, own: Mapping[str, str]
    ) -> DescribeConfigsResourceResult:
        settings = [*_own(own, key, ConfigSource.GROUP)]
        server_key = broker_synonym(key.name)
        if server_key in SERVER_CONFIGS:
            defaults, default = self._node.of(server_key), self._node.value(server_key)
        else:
            default = key.text_of(key.default)
            defaults = [ConfigSynonym(key.name, default, ConfigSource.DEFAULT)]
        value = settings[0].value if settings else default
        return self._result(key.name, key, value, settings + defaults)

    def client_metrics(
        self, name: str, wanted: Iterable[str] | None
    ) -> list[DescribeConfigsResourceResult]:
        """Returns all configs of a client metrics subscription; their defaults have no source."""
        own = self._configs.of(CLIENT_METRICS_RESOURCE, name)
        results = []
        for key in _chosen(CLIENT_METRICS_CONFIGS, wanted):
            settings = [*_own(own, key, ConfigSource.CLIENT_METRICS)]
            value = settings[0].value if settings else key.text_of(key.default)
            results.append(self._result(key.name, key, value, settings))
        return results

    def loggers(self, wanted: Iterable[str] | None) -> list[DescribeConfigsResourceResult]:
        """Returns the log levels of this process."""
        return [
            DescribeConfigsResourceResult(
                name=name,
                value=level,
                read_only=False,
                config_source=ConfigSource.LOGGER,
                is_sensitive=False,
                synonyms=[],
                config_type=ConfigTypeId.UNKNOWN,
                documentation="",
            )
            for name, level in logger_levels().items()
            if wanted is None or name in wanted
        ]

    def broker(self, wanted: Iterable[str] | None) -> list[DescribeConfigsResourceResult]:
        """Returns all configs of this node, or those in `wanted` that exist; this includes undeclared ones, for
        plug-ins.
        """
        names = [name for name in SERVER_CONFIGS if name in _OF_ALL_NODES]
        names += sorted(self._node.texts.keys() - _OF_ALL_NODES)
        return [
            self._node_config(name, self._node.value(name), self._node.of(name))
            for name in names
            if wanted is None or name in wanted
        ]

    def cluster_default(self, wanted: Iterable[str] | None) -> list[DescribeConfigsResourceResult]:
        """Returns the dynamic cluster-wide default configs of brokers."""
        return [
            self._node_config(
                name, text, [ConfigSynonym(name, text, ConfigSource.DYNAMIC_DEFAULT_BROKER)]
            )
            for name, text in sorted(self._node.of_all.items())
            if wanted is None or name in wanted
        ]

    def _node_config(
        self, name: str, value: str | None, settings: Sequence[ConfigSynonym]
    ) -> DescribeConfigsResourceResult:
        key = declared_key(name)
        # As in Kafka, this includes a listener's keys, although they may be altered.
        read_only = (
            key is None or key.name != name or (key.scope == "read-only" and name not in SECURITY)
        )
        return self._result(name, key, value, settings, read_only=read_only)

    def _result(
        self,
        name: str,
        key: ConfigKey | None,
        value: str | None,
        settings: Sequence[ConfigSynonym],
        *,
        read_only: bool = False,
    ) -> DescribeConfigsResourceResult:
        """Returns an entry. `key` declares `name`; the names differ for a listener's config. An undeclared config may
        be a secret.
        """
        sensitive = key is None or key.sensitive
        is_documented = self._documentation and key is not None and key.name == name
        return DescribeConfigsResourceResult(
            name=name,
            value=None if sensitive else value,
            read_only=read_only,
            config_source=settings[0].source if settings else ConfigSource.DEFAULT,
            is_sensitive=sensitive,
            synonyms=[
                DescribeConfigsSynonym(
                    name=setting.name,
                    value=None if sensitive else setting.value,
                    source=setting.source,
                )
                for setting in (settings if self._synonyms else ())
            ],
            config_type=ConfigTypeId.UNKNOWN if key is None else key.type_id,
            documentation=key.documentation if key is not None and is_documented else None,
        )


def _own(own: Mapping[str, str], key: ConfigKey, source: ConfigSource) -> Iterator[ConfigSynonym]:
    """Yields the resource's own value, in Kafka's format."""
    if key.name in own:
        yield ConfigSynonym(key.name, text_of(key, own[key.name]), source)


def _scaled(text: str, factor: int) -> str:
    """Returns the scaled value like Kafka's `ConfigSynonym`, which reads a malformed number as 0."""
    if factor == 1:
        return text
    try:
        return str(int(text) * factor)
    except ValueError:
        return "0"


def _chosen(table: Any, wanted: Iterable[str] | None) -> Iterator[ConfigKey]:
    names = None if wanted is None else set(wanted)
    for key in table.values():
        if names is None or key.name in names:
            yield key
