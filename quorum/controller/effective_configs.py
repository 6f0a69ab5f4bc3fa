"""What CreateTopics answers about the configs of a new topic: those that it sets itself, and those that hold for every topic here.

Source: Kafka's `ReplicationControlManager.createTopic` (KIP-525), which answers all of them too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from immutables import Map

from quorum.config.description import ConfigDescription
from quorum.config.server import ServerConfig
from quorum.metadata.image import BROKER_RESOURCE, ConfigsImage
from wire.messages.create_topics import CreatableTopicConfigs


class EffectiveConfigs:
    """Describes by the configs of a node. What holds for topics that set nothing is described anew only when the configs of
    brokers have changed: for every topic it would cost more than creating it.
    """

    def __init__(self, config: ServerConfig) -> None:
        self._config = config
        self._of_brokers: tuple[Map[str, str], ...] = ()
        self._common: dict[str, CreatableTopicConfigs] = {}

    def of(self, own: Mapping[str, str], configs: ConfigsImage) -> list[CreatableTopicConfigs]:
        """All configs of a topic that sets `own` itself."""
        nodes = (str(self._config.node_id), "")
        of_brokers = tuple(configs.of(BROKER_RESOURCE, node) for node in nodes)
        if of_brokers != self._of_brokers:
            self._common = self._describe({}, configs)
            self._of_brokers = of_brokers
        if not own:
            return list(self._common.values())
        return list((self._common | self._describe(own, configs, wanted=own)).values())

    def _describe(
        self, own: Mapping[str, str], configs: ConfigsImage, wanted: Iterable[str] | None = None
    ) -> dict[str, CreatableTopicConfigs]:
        described = ConfigDescription(self._config, configs, synonyms=False, documentation=False)
        return {
            one.name: CreatableTopicConfigs(
                name=one.name,
                value=one.value,
                read_only=one.read_only,
                config_source=one.config_source,
                is_sensitive=one.is_sensitive,
            )
            for one in described.topic_with(own, wanted)
        }
