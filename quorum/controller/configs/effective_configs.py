"""The configs of a new topic in a CreateTopics response: those set on the topic and the inherited ones.

Source: Kafka's `ReplicationControlManager.createTopic` (KIP-525), which also returns all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from immutables import Map

from trimaran.node.config.server import ServerConfig
from trimaran.node.config.topic_keys import TOPIC_CONFIGS
from trimaran.quorum.metadata.image import BROKER_RESOURCE, ConfigsImage
from trimaran.quorum.serving.config_entries import ConfigDescription
from trimaran.wire.codec.declarations import EncodedArray
from trimaran.wire.messages.create_topics import CreatableTopicConfigs, CreateTopicsResponse
from trimaran.wire.schema import encode_element


class EffectiveConfigs:
    """Describes topic configs with a node's configs as defaults. The configs of topics without their own settings are
    cached until broker configs change, because computing and encoding them costs more than creating the topic.
    """

    def __init__(self, config: ServerConfig) -> None:
        self._config = config
        self._of_brokers: tuple[Map[str, str], ...] = ()
        self._common: dict[str, CreatableTopicConfigs] = {}
        self._common_list: list[CreatableTopicConfigs] = []
        self._encoded: dict[int, EncodedArray] = {}  # by API version

    def of(self, own: Mapping[str, str], configs: ConfigsImage) -> list[CreatableTopicConfigs]:
        """Returns all configs of a topic whose own settings are `own`."""
        nodes = (str(self._config.node_id), "")
        of_brokers = tuple(configs.of(BROKER_RESOURCE, node) for node in nodes)
        if of_brokers != self._of_brokers:
            self._common = self._describe({}, configs)
            self._common_list = list(self._common.values())
            self._encoded.clear()
            self._of_brokers = of_brokers
        if not own:
            return self._common_list
        return list((self._common | self._describe(own, configs, wanted=own)).values())

    def encoded(self, found: list[CreatableTopicConfigs], version: int) -> EncodedArray:
        """Returns `found`, a result of `of`, encoded for a response of `version`."""
        if found is not self._common_list:
            return _encoded(found, version)
        known = self._encoded.get(version)
        if known is None:
            known = self._encoded[version] = _encoded(found, version)
        return known

    def _describe(
        self, own: Mapping[str, str], configs: ConfigsImage, wanted: Iterable[str] | None = None
    ) -> dict[str, CreatableTopicConfigs]:
        described = ConfigDescription(self._config, configs, synonyms=False, documentation=False)
        return {
            entry.name: CreatableTopicConfigs(
                name=entry.name,
                value=entry.value,
                read_only=False,
                config_source=entry.source,
                is_sensitive=TOPIC_CONFIGS[entry.name].sensitive,
            )
            for entry in described.created_topic(own, wanted)
        }


def _encoded(configs: Sequence[CreatableTopicConfigs], version: int) -> EncodedArray:
    return EncodedArray(encode_element(config, CreateTopicsResponse, version) for config in configs)
