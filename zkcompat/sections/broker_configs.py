"""Dynamic configs of single brokers and of all brokers, without secrets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from trimaran.quorum.metadata.delta import MetadataDelta
from trimaran.quorum.metadata.image import BROKER_RESOURCE, MetadataImage
from trimaran.wire.records.sensitive import is_sensitive
from trimaran.zkcompat.sections.configs import ConfigSection
from trimaran.zkcompat.sections.section import differing_keys
from trimaran.zkcompat.tree.operations import Znode
from trimaran.zkcompat.znodes.entity_config import CONFIG_BROKERS, EntityConfig
from trimaran.zkcompat.znodes.names import DEFAULT_ENTITY, config_entity


class BrokerConfigSection(ConfigSection):
    """The configs of brokers. A broker has a znode while it has configs, as in Kafka's dual-write mode."""

    label = "BrokerConfigs"
    directories: ClassVar[tuple[str, ...]] = (CONFIG_BROKERS,)

    def names(self, image: MetadataImage) -> Iterable[str]:
        return sorted(_of(image.configs.by_resource))

    def touched(self, delta: MetadataDelta) -> Iterable[str]:
        return _of(delta.configs.changed)

    def differing(self, before: MetadataImage, after: MetadataImage) -> Iterable[str]:
        return _of(differing_keys(before.configs.by_resource, after.configs.by_resource))

    def znodes(self, name: str, image: MetadataImage) -> Iterable[tuple[str, Znode]]:
        resource = (BROKER_RESOURCE, "" if name == DEFAULT_ENTITY else name)
        config = image.configs.by_resource.get(resource)
        if config:
            shown = {key: value for key, value in config.items() if not self.is_foreign(key)}
            yield EntityConfig.broker_path(name), Znode(EntityConfig(shown).encode())

    def is_foreign(self, key: str) -> bool:
        return is_sensitive(key, BROKER_RESOURCE)


def _of(resources: Iterable[tuple[int, str]]) -> list[str]:
    return [config_entity(name) for kind, name in resources if kind == BROKER_RESOURCE]
