"""The changes of configs that would change nothing, as far as the client may see the configs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from trimaran.client.changes import APPEND, DELETE, SET, SUBTRACT, Change
from trimaran.client.configs import config_rows
from trimaran.quorum.metadata import image
from trimaran.wire.errors import KafkaError

if TYPE_CHECKING:
    from trimaran.wire.blocking import BlockingClient
    from trimaran.wire.identity import NodeId

# The source of the configs that are set for a resource itself; those of all brokers have another one.
_OWN = {
    image.TOPIC_RESOURCE: "DYNAMIC_TOPIC_CONFIG",
    image.BROKER_RESOURCE: "DYNAMIC_BROKER_CONFIG",
    image.BROKER_LOGGER_RESOURCE: "DYNAMIC_BROKER_LOGGER_CONFIG",
    image.CLIENT_METRICS_RESOURCE: "DYNAMIC_CLIENT_METRICS_CONFIG",
    image.GROUP_RESOURCE: "DYNAMIC_GROUP_CONFIG",
}
_OF_ALL_BROKERS = "DYNAMIC_DEFAULT_BROKER_CONFIG"


def without_effect(
    client: BlockingClient,
    resource_type: int,
    name: str,
    changes: Sequence[Change],
    node: NodeId | None = None,
) -> list[Change]:
    """Returns the changes after which the configs would be the same as now; none if the client may not see them."""
    try:
        rows = config_rows(client, resource_type, name, node, [key for key, _, _ in changes])
    except KafkaError:
        return []  # the change itself may be permitted although the description is not
    own = _OWN[resource_type] if name else _OF_ALL_BROKERS
    by_name = {str(row["name"]): row for row in rows}
    return [change for change in changes if _is_without_effect(by_name.get(change[0]), own, change)]


def _is_without_effect(row: Mapping[str, Any] | None, own: str, change: Change) -> bool:
    _, operation, value = change
    if row is None:
        return operation == DELETE
    if row["is_sensitive"]:
        return False
    present = _own_value(row, own)
    if operation == DELETE:
        return present is None
    if present is None:
        return False
    if operation == SET:
        return present == value
    assert operation in (APPEND, SUBTRACT)
    entries, named = _entries(present), _entries(value)
    return named <= entries if operation == APPEND else named.isdisjoint(entries)


def _own_value(row: Mapping[str, Any], own: str) -> str | None:
    """Returns the value that is set for the resource itself. Brokers before Kafka 1.1 send no synonyms."""
    if row["config_source"] == own:
        return str(row["value"])
    found = (each["value"] for each in row["synonyms"] if each["source"] == own)
    return next(found, None)


def _entries(value: str | None) -> set[str]:
    return {entry.strip() for entry in (value or "").split(",") if entry.strip()}
