"""What DescribeConfigs tells of topics, groups, subscriptions and of this node: values, where they come from, what
would hold otherwise.

Source: `ConfigHelper` and `DynamicBrokerConfig` of Kafka, KIP-226 (sources and synonyms). Sensitive values are never
shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from enum import IntEnum
from typing import Any, NamedTuple

from node.config.client_metrics_keys import CLIENT_METRICS_CONFIGS
from node.config.config_def import ConfigKey
from node.config.dynamic_keys import dynamic_key
from node.config.group_keys import GROUP_CONFIGS, broker_synonym
from node.config.loggers import logger_levels
from node.config.server import ServerConfig
from node.config.server_keys import SERVER_CONFIGS
from node.config.topic_keys import SERVER_SYNONYMS, TOPIC_CONFIGS
from quorum.metadata.image import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    ConfigsImage,
)
from wire.messages.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsSynonym,
)


class Source(IntEnum):
    """`ConfigSource` of Kafka."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class Setting(NamedTuple):
    """One place that gives a value."""

    name: str
    value: str | None
    source: Source


class ConfigDescription:
    """Describes by the configs of one image."""

    def __init__(
        self, config: ServerConfig, configs: ConfigsImage, *, synonyms: bool, documentation: bool
    ) -> None:
        self._config = config
        self._configs = configs
        self._synonyms = synonyms
        self._documentation = documentation

    def topic(self, name: str, wanted: Iterable[str] | None) -> list[DescribeConfigsResourceResult]:
        """All configs of a topic, or those `wanted` that exist."""
        return self.topic_with(self._configs.of(TOPIC_RESOURCE, name), wanted)

    def topic_with(
        self, own: Mapping[str, str], wanted: Iterable[str] | None = None
    ) -> list[DescribeConfigsResourceResult]:
        """The same of a topic that sets `own` itself."""
        return [
            self._result(key, [*_own(own, key.name), *self._topic_defaults(key)], read_only=False)
            for key in _chosen(TOPIC_CONFIGS, wanted)
        ]

    def group(self, name: str, wanted: Iterable[str] | None) -> list[DescribeConfigsResourceResult]:
        """All configs of a group, whether there is one or not."""
        own = self._configs.of(GROUP_RESOURCE, name)
        return [
            self._result(
                key,
                [
                    *_own(own, key.name, Source.GROUP),
                    Setting(broker_synonym(key.name), _text(key, key.default), Source.DEFAULT),
                ],
                read_only=False,
            )
            for key in _chosen(GROUP_CONFIGS, wanted)
        ]

    def client_metrics(
        self, name: str, wanted: Iterable[str] | None
    ) -> list[DescribeConfigsResourceResult]:
        """All configs of a subscription to clients' metrics."""
        own = self._configs.of(CLIENT_METRICS_RESOURCE, name)
        results = []
        for key in _chosen(CLIENT_METRICS_CONFIGS, wanted):
            settings = [*_own(own, key.name, Source.CLIENT_METRICS)]
            default = Setting(key.name, _text(key, key.default), Source.DEFAULT)
            result = self._result(key, settings or [default], read_only=False)
            if not settings:
                result.synonyms = []  # as Kafka's: a default of a subscription is nobody's
            results.append(result)
        return results

    def loggers(self, wanted: Iterable[str] | None) -> list[DescribeConfigsResourceResult]:
        """The levels of this process."""
        return [
            DescribeConfigsResourceResult(
                name=name,
                value=level,
                read_only=False,
                config_source=Source.LOGGER,
                is_sensitive=False,
                synonyms=[],
                config_type=0,
                documentation=None,
            )
            for name, level in logger_levels().items()
            if wanted is None or name in wanted
        ]

    def broker(self, wanted: Iterable[str] | None) -> list[DescribeConfigsResourceResult]:
        """All configs of this node, or those `wanted` that exist."""
        known = [
            self._result(
                key, [*self._broker_settings(key.name)], read_only=key.scope == "read-only"
            )
            for key in _chosen(SERVER_CONFIGS, wanted)
            if not key.internal
        ]
        own = self._configs.of(BROKER_RESOURCE, str(self._config.node_id))
        for_all = self._configs.of(BROKER_RESOURCE, "")
        kept = [
            self._kept(
                name,
                [
                    Setting(name, values[name], source)
                    for values, source in (
                        (own, Source.DYNAMIC_BROKER),
                        (for_all, Source.DYNAMIC_DEFAULT_BROKER),
                    )
                    if name in values
                ],
            )
            for name in sorted({*own, *for_all} - SERVER_CONFIGS.keys())
            if wanted is None or name in wanted
        ]
        return known + kept

    def cluster_default(self, wanted: Iterable[str] | None) -> list[DescribeConfigsResourceResult]:
        """The dynamic configs of all brokers."""
        dynamic = self._configs.of(BROKER_RESOURCE, "")
        return [
            self._kept(name, [Setting(name, value, Source.DYNAMIC_DEFAULT_BROKER)])
            for name, value in sorted(dynamic.items())
            if wanted is None or name in wanted
        ]

    def _kept(self, name: str, settings: list[Setting]) -> DescribeConfigsResourceResult:
        """A dynamic config; of what is not known here nobody can say that it is no secret."""
        key = dynamic_key(name) or ConfigKey(name, "password", None, "")
        return self._result(replace(key, name=name), settings, read_only=False)

    def _topic_defaults(self, key: ConfigKey) -> Iterator[Setting]:
        """In order of precedence: what holds when the topic says nothing."""
        for server_key, factor in SERVER_SYNONYMS.get(key.name, ()):
            for setting in self._broker_settings(server_key):
                if setting.source is not Source.DEFAULT:
                    value = setting.value
                    if factor != 1 and value is not None:
                        value = str(int(value) * factor)
                    yield setting._replace(value=value)
        yield Setting(key.name, _text(key, key.default), Source.DEFAULT)

    def _broker_settings(self, name: str) -> Iterator[Setting]:
        key = SERVER_CONFIGS[name]
        for resource, source in (
            (str(self._config.node_id), Source.DYNAMIC_BROKER),
            ("", Source.DYNAMIC_DEFAULT_BROKER),
        ):
            dynamic = self._configs.of(BROKER_RESOURCE, resource)
            if name in dynamic:
                yield Setting(name, dynamic[name], source)
        if self._config.explicit.get(name) is not None:
            yield Setting(name, _text(key, self._config[name]), Source.STATIC_BROKER)
        yield Setting(name, _text(key, key.default), Source.DEFAULT)

    def _result(
        self, key: ConfigKey, settings: list[Setting], *, read_only: bool
    ) -> DescribeConfigsResourceResult:
        first = settings[0]
        return DescribeConfigsResourceResult(
            name=key.name,
            value=None if key.sensitive else first.value,
            read_only=read_only,
            config_source=first.source,
            is_sensitive=key.sensitive,
            synonyms=[
                DescribeConfigsSynonym(
                    name=setting.name,
                    value=None if key.sensitive else setting.value,
                    source=setting.source,
                )
                for setting in (settings if self._synonyms else ())
                if setting.source is not Source.DEFAULT or setting.value is not None
            ],
            config_type=key.type_id,
            documentation=key.documentation if self._documentation else None,
        )


def _own(own: Mapping[str, str], name: str, source: Source = Source.TOPIC) -> Iterator[Setting]:
    if name in own:
        yield Setting(name, own[name], source)


def _chosen(table: Any, wanted: Iterable[str] | None) -> Iterator[ConfigKey]:
    names = None if wanted is None else set(wanted)
    for key in table.values():
        if names is None or key.name in names:
            yield key


def _text(key: ConfigKey, value: Any) -> str | None:
    return None if value is None else key.text_of(value)
