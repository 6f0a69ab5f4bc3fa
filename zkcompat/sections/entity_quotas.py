"""Quotas of clients that belong to no user, and of addresses. Not mirrored: names that are not valid znode names (`.`,
`..`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from trimaran.quorum.metadata.delta import MetadataDelta
from trimaran.quorum.metadata.describe_client_quotas import CLIENT_ID, IP
from trimaran.quorum.metadata.image import MetadataImage, QuotaEntity
from trimaran.zkcompat.sections.configs import ConfigSection
from trimaran.zkcompat.sections.quotas import quotas_of, quoted_name, znode_name
from trimaran.zkcompat.sections.section import differing_keys
from trimaran.zkcompat.tree.operations import Znode
from trimaran.zkcompat.znodes.entity_config import EntityConfig
from trimaran.zkcompat.znodes.names import is_znode_name
from trimaran.zkcompat.znodes.quota_value import QUOTA_KEYS


class EntityQuotas(ConfigSection):
    """Entities with a single part, of type `part`."""

    part: ClassVar[str]

    def names(self, image: MetadataImage) -> Iterable[str]:
        return sorted(dict.fromkeys(self._of(entity for entity, _ in image.quotas)))

    def touched(self, delta: MetadataDelta) -> Iterable[str]:
        return self._of(entity for entity, _ in delta.quotas.changed)

    def differing(self, before: MetadataImage, after: MetadataImage) -> Iterable[str]:
        return self._of(entity for entity, _ in differing_keys(before.quotas, after.quotas))

    def znodes(self, name: str, image: MetadataImage) -> Iterable[tuple[str, Znode]]:
        quotas = quotas_of(image.quotas, ((self.part, quoted_name(name)),))
        if quotas:
            yield f"{self.directories[0]}/{name}", Znode(EntityConfig(quotas).encode())

    def is_foreign(self, key: str) -> bool:
        return key not in QUOTA_KEYS

    def _of(self, entities: Iterable[QuotaEntity]) -> Iterable[str]:
        for entity in entities:
            if len(entity) == 1 and entity[0][0] == self.part:
                name = znode_name(entity[0][1])
                if is_znode_name(name):
                    yield name


class ClientSection(EntityQuotas):
    label = "ClientConfigs"
    part = CLIENT_ID
    directories: ClassVar[tuple[str, ...]] = ("/config/clients",)


class IpSection(EntityQuotas):
    label = "IpConfigs"
    part = IP
    directories: ClassVar[tuple[str, ...]] = ("/config/ips",)
