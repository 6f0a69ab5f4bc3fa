"""Groups of every kind in one form: state, epoch, assignor, and the members with their assignments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from trimaran.client.group_kinds import KINDS, kind_named
from trimaran.client.groups import group_rows
from trimaran.errors.refused import no_group
from trimaran.errors.user_error import Exit, UserError
from trimaran.wire.client.destinations import CoordinatorNode
from trimaran.wire.identity import TopicPartition

if TYPE_CHECKING:
    from trimaran.wire.blocking import BlockingClient


def group_described(
    client: BlockingClient, group: str, *, with_operations: bool = False
) -> dict[str, Any]:
    """Returns kind, state, epoch, assignor, coordinator and members of a group; `with_operations`, also what this
    client may do with it (`rights`). Raises UserError if there is no such group.

    Each member has its `assignment`: partitions by topic, or for Streams the active tasks by subtopology.
    """
    found = described_or_none(client, group, with_operations=with_operations)
    if found is None:
        ensure_served(client, group)
        raise no_group(group)
    return found


def ensure_served(client: BlockingClient, group: str) -> None:
    """Raises UserError if a group that cannot be described is listed: the feature of its kind is disabled."""
    for row in group_rows(client):
        if row["group"] == group:
            raise _not_served(group, row["type"].lower())


def _not_served(group: str, kind: str) -> UserError:
    return UserError(
        f"group {group} cannot be described now",
        f"it is a {kind} group, and the brokers do not serve these groups; its state is kept",
        f"trimaran features list shows the level of {kind_named(kind).feature or 'each feature'}",
        exit_code=Exit.REFUSED,
    )


def described_or_none(
    client: BlockingClient, group: str, *, with_operations: bool = False
) -> dict[str, Any] | None:
    """Returns `group_described`; None if there is no such group."""
    for kind in KINDS.values():
        found = kind.describe(client, group, with_operations=with_operations)
        if found is not None:
            address = client.routing.locate(CoordinatorNode(group))
            nodes = {where: node for node, where in client.routing.nodes.items()}
            return {
                "group": group,
                "type": kind.name,
                **found,
                "coordinator": None if address is None else nodes.get(address),
                "coordinator_address": None if address is None else str(address),
            }
    return None


def owners_of(described: Mapping[str, Any]) -> dict[TopicPartition, Mapping[str, Any]]:
    """Returns the member by topic and partition; empty for share groups: several members read a partition."""
    return kind_named(described["type"]).owners(described)
