"""Client quotas of the image as configs, for the sections of users, clients and ips. Pure.

Source: KIP-546. The image names an entity by its parts in alphabetical order, with None for the default.
"""

from __future__ import annotations

from trimaran.quorum.metadata.image import QuotaEntity, QuotasImage
from trimaran.zkcompat.znodes.names import DEFAULT_ENTITY, desanitize, sanitize
from trimaran.zkcompat.znodes.quota_value import QUOTA_KEYS, quota_text


def znode_name(entity_name: str | None) -> str:
    """Returns the znode name of an entity; None is the default entity."""
    return DEFAULT_ENTITY if entity_name is None else sanitize(entity_name)


def quotas_of(quotas: QuotasImage, entity: QuotaEntity) -> dict[str, str]:
    """Returns the quotas of one entity as texts."""
    found = ((key, quotas.get((entity, key))) for key in QUOTA_KEYS)
    return {key: quota_text(key, record.value) for key, record in found if record is not None}


def quoted_name(znode: str) -> str | None:
    """Returns the entity name of a znode: the inverse of `znode_name`."""
    return None if znode == DEFAULT_ENTITY else desanitize(znode)
