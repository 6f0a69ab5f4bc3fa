"""`/config/TYPE/NAME`, which a tool rewrites completely, with a note in `/config/changes`: differences from the image
are requested.

Topics and brokers have configs; users, clients and addresses have quotas, and users may have credentials
(`credentials.py`). Passwords among the configs of brokers are encrypted with a secret of the brokers. Source:
`AdminZkClient`, `ConfigCommand` of Kafka 2.8; `TopicConfigManager` of 0.8.2 for the oldest notes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trimaran.quorum.metadata.describe_client_quotas import CLIENT_ID, IP, USER
from trimaran.quorum.metadata.image import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    MetadataImage,
    QuotaEntity,
)
from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    EntityData,
    OpData,
)
from trimaran.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from trimaran.wire.records.sensitive import is_sensitive
from trimaran.zkcompat.legacy.requests import credentials
from trimaran.zkcompat.legacy.requests.admin_requests import (
    AdminRequest,
    QuorumRequest,
    RequestKind,
    refusal,
)
from trimaran.zkcompat.sections.quotas import quotas_of, quoted_name
from trimaran.zkcompat.znodes.entity_config import EntityConfig
from trimaran.zkcompat.znodes.json_form import JSON_BYTES_MAX
from trimaran.zkcompat.znodes.names import DEFAULT_ENTITY
from trimaran.zkcompat.znodes.quota_value import QUOTA_KEYS, quota_text
from trimaran.zkcompat.znodes.scram_credential import SCRAM_KEYS

SET, DELETE = 0, 1
_QUOTA_PARTS = {"users": USER, "clients": CLIENT_ID, "ips": IP}


@dataclass(frozen=True, slots=True)
class ConfigEntity:
    """The owner of the configs in a znode: a resource, or an entity with quotas. `path` is the znode's."""

    path: str
    resource: tuple[int, str] | None = None
    quota: QuotaEntity = ()

    @property
    def kind(self) -> RequestKind:
        return RequestKind.CONFIG if self.resource is not None else RequestKind.QUOTA

    @property
    def user(self) -> str | None:
        """Returns the user with credentials: the entity has a user name, and no client."""
        match self.quota:
            case ((kind, name),) if kind == USER:
                return name
            case _:
                return None


def entity_of_note(data: bytes | None) -> ConfigEntity | None:
    """Returns the entity of a note in `/config/changes`, in one of Kafka's three forms; None for a malformed note."""
    if data is None or len(data) > JSON_BYTES_MAX:
        return None
    try:
        note = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if isinstance(note, str):  # 0.8: a topic
        return entity_of(f"topics/{note}")
    if not isinstance(note, dict):
        return None
    if note.get("version") == 1:
        return entity_of(f"{note.get('entity_type')}/{note.get('entity_name')}")
    return entity_of(str(note.get("entity_path")))


def entity_of(entity_path: str) -> ConfigEntity | None:
    """Returns the entity of `topics/T`, `users/U/clients/C` and so on; None for any other path."""
    names = entity_path.split("/")
    path = f"/config/{entity_path}"
    if any(name in ("", ".", "..") for name in names):
        return None
    match names:
        case ["topics", topic]:
            return ConfigEntity(path, resource=(TOPIC_RESOURCE, topic))
        case ["brokers", broker] if broker == DEFAULT_ENTITY or broker.isdecimal():
            resource = "" if broker == DEFAULT_ENTITY else broker
            return ConfigEntity(path, resource=(BROKER_RESOURCE, resource))
        case [("users" | "clients" | "ips") as kind, name]:
            return ConfigEntity(path, quota=((_QUOTA_PARTS[kind], quoted_name(name)),))
        case ["users", user, "clients", client]:
            # In alphabetical order, as in the image.
            return ConfigEntity(
                path, quota=((CLIENT_ID, quoted_name(client)), (USER, quoted_name(user)))
            )
        case _:
            return None


def decide(
    entity: ConfigEntity,
    data: bytes | None,
    image: MetadataImage,
    *,
    credentials_shown: bool = False,
) -> list[AdminRequest]:
    """Returns the requests of a config znode; none if it equals the image."""
    description = f"alter the configs of {entity.path.removeprefix('/config/')}"
    try:
        wanted = dict(EntityConfig.decode(data).config)
    except RemoteProtocolError as error:
        refused = [f"{description}: {error}"]
        return [AdminRequest(entity.kind, description, refused=refused, entities=[entity.path])]
    found: list[AdminRequest | None] = []
    if entity.resource is not None:
        found.append(_configs(entity, entity.resource, wanted, image, description))
    elif entity.user is None:
        found.append(_quotas(entity, wanted, image, description))
    else:
        texts = {key: wanted.pop(key) for key in SCRAM_KEYS.values() if key in wanted}
        shown = credentials_shown
        found.append(credentials.decide(entity.path, entity.user, texts, image, shown=shown))
        found.append(_quotas(entity, wanted, image, description))
    return [request for request in found if request is not None]


def _configs(
    entity: ConfigEntity,
    resource: tuple[int, str],
    wanted: Mapping[str, str],
    image: MetadataImage,
    description: str,
) -> AdminRequest | None:
    kind, name = resource
    if kind == TOPIC_RESOURCE and name not in image.topics.by_name:
        return None  # the topic is new, or gone

    def hides(key: str) -> bool:
        return kind == BROKER_RESOURCE and is_sensitive(key, kind)

    known = {key: value for key, value in image.configs.of(kind, name).items() if not hides(key)}
    refused = [
        f"{description}: {key} may be a secret, set it with kafka-configs --bootstrap-server"
        for key in sorted(wanted)
        if hides(key)
    ]
    shown = {key: value for key, value in wanted.items() if not hides(key)}
    changes = _config_changes(known, shown)
    resource_changes = AlterConfigsResource(resource_type=kind, resource_name=name, configs=changes)
    request = IncrementalAlterConfigsRequest(resources=[resource_changes], validate_only=False)

    def refusals(response: Any) -> list[str]:
        (result,) = response.responses
        return refusal(description, result.error_code, result.error_message)

    return _order(
        entity, description, [QuorumRequest(request, refusals)] if changes else [], refused
    )


def _config_changes(known: Mapping[str, str], wanted: Mapping[str, str]) -> list[AlterableConfig]:
    changes = [
        AlterableConfig(name=key, config_operation=SET, value=value)
        for key, value in sorted(wanted.items())
        if known.get(key) != value
    ]
    return changes + [
        AlterableConfig(name=key, config_operation=DELETE, value=None)
        for key in sorted(known.keys() - wanted.keys())
    ]


def _quotas(
    entity: ConfigEntity, wanted: Mapping[str, str], image: MetadataImage, description: str
) -> AdminRequest | None:
    known = quotas_of(image.quotas, entity.quota)
    refused = [
        f"{description}: {key} is no quota" for key in sorted(wanted.keys() - set(QUOTA_KEYS))
    ]
    numbers = {key: _number(wanted[key]) for key in QUOTA_KEYS if key in wanted}
    refused += [
        f"{description}: {key}={wanted[key][:40]} is no number"
        for key, value in numbers.items()
        if value is None
    ]
    operations = [
        OpData(key=key, value=0.0, remove=True) for key in sorted(known) if key not in wanted
    ]
    operations += [
        OpData(key=key, value=value, remove=False)
        for key, value in numbers.items()
        if value is not None and known.get(key) != quota_text(key, value)
    ]
    parts = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity.quota]
    entry = AlterClientQuotasRequestEntryData(entity=parts, ops=operations)
    request = AlterClientQuotasRequest(entries=[entry], validate_only=False)

    def refusals(response: Any) -> list[str]:
        (result,) = response.entries
        return refusal(description, result.error_code, result.error_message)

    return _order(
        entity, description, [QuorumRequest(request, refusals)] if operations else [], refused
    )


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _order(
    entity: ConfigEntity, description: str, quorum_requests: list[QuorumRequest], refused: list[str]
) -> AdminRequest | None:
    """Returns the request; None if there is nothing to request and nothing was refused."""
    if not quorum_requests and not refused:
        return None
    return AdminRequest(
        entity.kind,
        description,
        quorum_requests=quorum_requests,
        refused=refused,
        entities=[entity.path],
    )
