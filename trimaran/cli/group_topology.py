"""`groups describe --topology`: the subtopologies of a streams group, and the description of its topology (KIP-1331).

The subtopologies are those with which the coordinator assigns tasks. The description has the nodes of the application;
Kafka Streams sends it if the coordinator asks for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trimaran.cli import kafka_group_text
from trimaran.cli.folding import show_folded
from trimaran.cli.output import put
from trimaran.client import streams_groups
from trimaran.errors.user_error import Exit, UserError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trimaran.wire.blocking import BlockingClient

COLUMNS = (
    "subtopology",
    "source_topics",
    "repartition_source_topics",
    "repartition_sink_topics",
    "changelog_topics",
)


def topology_of(client: BlockingClient, group: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the topology of a described group; `description` is None if none is available.

    Raises:
        UserError: the group is of another kind.
    """
    if group["type"] != "streams":
        raise UserError(
            f"{group['group']} has no topology",
            f"it is a {group['type']} group, and only streams groups have one",
            f"trimaran groups describe {group['group']} --members shows its members",
            exit_code=Exit.NO,
        )
    described = streams_groups.topology_of(client, str(group["group"]))
    is_available = described is not None and described["status"] == "available"
    return {
        "group": group["group"],
        "topology_epoch": group["topology_epoch"],
        "subtopologies": group["subtopologies"],
        "description": described if is_available else None,
    }


def show_topology(_group: Mapping[str, Any], topology: Mapping[str, Any], output: str) -> None:
    """Prints the topology. Raises UserError for `-o kafka` without a description."""
    described = topology["description"]
    if output == "kafka":
        if described is None:
            raise _no_description(topology["group"])
        put(kafka_group_text.topology(described))
        return
    show_folded(topology["subtopologies"], output, columns=COLUMNS, noun="subtopology")
    if described is not None:
        put()
        put(kafka_group_text.topology(described).rstrip("\n"))


def _no_description(group: str) -> UserError:
    return UserError(
        f"no description of the topology of {group} is stored",
        "its members have not sent one, or the broker keeps none",
        f"trimaran groups describe {group} --topology shows its subtopologies",
        exit_code=Exit.NO,
    )
