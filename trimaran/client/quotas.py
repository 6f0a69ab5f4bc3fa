"""Client quotas: rows of the quotas that are set, and their changes (KIP-546)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from trimaran.errors.refused import Needs, check
from trimaran.node.text.wording import entity_text
from trimaran.quorum.metadata.describe_client_quotas import DEFAULT, EXACT
from trimaran.wire.client.response_checks import single_item
from trimaran.wire.errors import KafkaError
from trimaran.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    EntityData,
    OpData,
)
from trimaran.wire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest

if TYPE_CHECKING:
    from trimaran.wire.blocking import BlockingClient

# The names of an entity by type; None is the default entity of a type.
Entity = Mapping[str, str | None]


def quota_rows(
    client: BlockingClient, entity: Entity, *, only_this: bool = False
) -> list[dict[str, Any]]:
    """Returns a row for each quota of the entities that have the names in `entity`, or, with `only_this`, of this
    entity. Raises KafkaError.
    """
    components = [
        ComponentData(entity_type=kind, match_type=DEFAULT if name is None else EXACT, match=name)
        for kind, name in entity.items()
    ]
    request = DescribeClientQuotasRequest(components=components, strict=only_this)
    response = client.call(None, request)
    check(response.error_code, response.error_message, needs=Needs("DESCRIBE_CONFIGS"))
    rows = []
    for entry in response.entries or ():
        names = {part.entity_type: part.entity_name for part in entry.entity}
        rows += [
            {
                "entity": entity_text(names),
                "names": names,
                "quota": quota.key,
                "value": quota.value,
            }
            for quota in entry.values
        ]
    return sorted(rows, key=lambda row: (row["entity"], row["quota"]))


def quotas_that_are_set(
    client: BlockingClient, entity: Entity, values: Sequence[tuple[str, float]]
) -> set[str]:
    """Returns the names of the quotas that the entity has with these values; none if the client may not see them."""
    try:
        rows = quota_rows(client, entity, only_this=True)
    except KafkaError:
        return set()
    present = {(row["quota"], row["value"]) for row in rows}
    return {key for key, value in values if (key, value) in present}


def set_quotas(
    client: BlockingClient,
    entity: Entity,
    values: Sequence[tuple[str, float]],
    *,
    validate_only: bool = False,
) -> None:
    """Sets quotas of an entity; its other quotas stay. Raises KafkaError."""
    changes = [OpData(key=key, value=value, remove=False) for key, value in values]
    _alter(client, entity, changes, validate_only=validate_only)


def delete_quotas(
    client: BlockingClient, entity: Entity, keys: Sequence[str], *, validate_only: bool = False
) -> None:
    """Deletes quotas of an entity. Raises KafkaError."""
    changes = [OpData(key=key, value=0.0, remove=True) for key in keys]
    _alter(client, entity, changes, validate_only=validate_only)


def _alter(
    client: BlockingClient, entity: Entity, changes: list[OpData], *, validate_only: bool
) -> None:
    entry = AlterClientQuotasRequestEntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
        ops=changes,
    )
    request = AlterClientQuotasRequest(entries=[entry], validate_only=validate_only)
    result = single_item(client.call(None, request).entries, "entity")
    check(result.error_code, result.error_message, needs=Needs("ALTER_CONFIGS"))
