"""Users: their quotas, those of their clients, and SCRAM credentials if secrets are mirrored.

A znode with credentials can be read by its creator only. Not mirrored: names that are not valid znode names.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import ClassVar

from trimaran.quorum.metadata.delta import MetadataDelta
from trimaran.quorum.metadata.describe_client_quotas import CLIENT_ID, USER
from trimaran.quorum.metadata.image import MetadataImage, QuotaEntity, QuotasImage, ScramKey
from trimaran.zkcompat.sections.configs import ConfigSection
from trimaran.zkcompat.sections.quotas import quotas_of, quoted_name, znode_name
from trimaran.zkcompat.sections.section import differing_keys
from trimaran.zkcompat.tree.operations import Znode
from trimaran.zkcompat.znodes.entity_config import EntityConfig
from trimaran.zkcompat.znodes.names import DEFAULT_ENTITY, desanitize, is_znode_name, sanitize
from trimaran.zkcompat.znodes.quota_value import QUOTA_KEYS
from trimaran.zkcompat.znodes.scram_credential import SCRAM_KEYS, scram_text

CONFIG_USERS = "/config/users"
Clients = dict[str, list[str]]


class UserSection(ConfigSection):
    """An entity is a user with all its clients."""

    label = "UserConfigs"
    directories: ClassVar[tuple[str, ...]] = (CONFIG_USERS,)

    def __init__(self, *, scram: bool) -> None:
        self._scram = scram
        self._clients: list[tuple[QuotasImage, Clients]] = []

    def names(self, image: MetadataImage) -> Iterable[str]:
        users = dict.fromkeys(_users(entity for entity, _ in image.quotas))
        if self._scram:
            users.update(dict.fromkeys(_with_credentials(image.scram)))
        return sorted(users)

    def touched(self, delta: MetadataDelta) -> Iterable[str]:
        yield from _users(entity for entity, _ in delta.quotas.changed)
        if self._scram:
            yield from _with_credentials(delta.scram.changed)

    def differing(self, before: MetadataImage, after: MetadataImage) -> Iterable[str]:
        yield from _users(entity for entity, _ in differing_keys(before.quotas, after.quotas))
        if self._scram:
            yield from _with_credentials(differing_keys(before.scram, after.scram))

    def znodes(self, name: str, image: MetadataImage) -> Iterable[tuple[str, Znode]]:
        own = quotas_of(image.quotas, ((USER, quoted_name(name)),))
        credentials = self._credentials(name, image)
        clients = self._clients_of(image.quotas).get(name, ())
        path = f"{CONFIG_USERS}/{name}"
        if own or credentials:
            data = EntityConfig({**own, **credentials}).encode()
            yield path, Znode(data, secret=bool(credentials))
        elif clients:
            yield path, Znode(None)
        if not clients:
            return
        yield f"{path}/clients", Znode(None)
        for client in sorted(clients):
            entity = ((CLIENT_ID, quoted_name(client)), (USER, quoted_name(name)))
            quotas = quotas_of(image.quotas, entity)
            yield f"{path}/clients/{client}", Znode(EntityConfig(quotas).encode())

    def is_foreign(self, key: str) -> bool:
        return key not in QUOTA_KEYS and not (self._scram and key in SCRAM_KEYS.values())

    def _credentials(self, name: str, image: MetadataImage) -> dict[str, str]:
        if not self._scram or name == DEFAULT_ENTITY:
            return {}
        user = desanitize(name)
        found = (
            (key, image.scram.get(ScramKey(user, number))) for number, key in SCRAM_KEYS.items()
        )
        return {key: scram_text(record) for key, record in found if record is not None}

    def _clients_of(self, quotas: QuotasImage) -> Clients:
        """Returns the clients of each user. It walks over all quotas, so the results for two images are kept."""
        for known, clients in self._clients:
            if known is quotas:
                return clients
        found: dict[str, dict[str, None]] = defaultdict(dict)
        for entity, _ in quotas:
            parts = dict(entity)
            if USER in parts and CLIENT_ID in parts:
                client = znode_name(parts[CLIENT_ID])
                if is_znode_name(client):
                    found[znode_name(parts[USER])][client] = None
        clients = {user: list(names) for user, names in found.items()}
        self._clients = [*self._clients[-1:], (quotas, clients)]
        return clients


def _users(entities: Iterable[QuotaEntity]) -> Iterable[str]:
    for entity in entities:
        parts = dict(entity)
        if USER in parts and is_znode_name(user := znode_name(parts[USER])):
            yield user


def _with_credentials(credentials: Iterable[ScramKey]) -> Iterable[str]:
    return (name for user, _ in credentials if is_znode_name(name := sanitize(user)))
