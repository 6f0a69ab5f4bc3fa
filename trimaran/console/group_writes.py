"""Changes of groups: their positions are reset."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from trimaran.client.changes import ensure_idle
from trimaran.client.group_kinds import GroupRequests, kind_named
from trimaran.client.group_members import group_described
from trimaran.client.group_resets import OffsetReset, planned_reset
from trimaran.client.positions import parse_position
from trimaran.console.forms import Fields, needed
from trimaran.console.page import PageRequest
from trimaran.console.pages import groups as groups_page
from trimaran.console.writes import ConsoleWrite, Preview
from trimaran.errors.user_error import Exit, UserError
from trimaran.node.text.wording import counted

if TYPE_CHECKING:
    from trimaran.wire.blocking import BlockingClient


def _planned(
    client: BlockingClient, question: PageRequest, fields: Fields
) -> tuple[GroupRequests, OffsetReset]:
    """Returns the reset of the positions of a group, or of those in one topic: committed offsets, of a streams group
    those of its input topics, of a share group its start offsets.
    """
    group, position = question.path["group"], parse_position(needed(fields, "to"))
    topic = fields.get("topic", "").strip()
    described = group_described(client, group)
    ensure_idle(described)
    kind = kind_named(described["type"])
    before = kind.positions(client, described)
    wanted = sorted(place for place in before if topic in ("", place.topic))
    if not wanted:
        raise UserError(
            f"group {group} has committed no offsets{f' of {topic}' if topic else ''}",
            "only offsets that the group has can be reset here",
            "use trimaran groups reset-offsets --topic to commit offsets of other topics",
            exit_code=Exit.USAGE,
        )
    return kind, planned_reset(client, kind, before, wanted, position)


def _reset(question: PageRequest, fields: Fields) -> str:
    group = question.path["group"]
    with question.cluster.client() as client:
        kind, reset = _planned(client, question, fields)
        kind.set_positions(client, group, reset.changed)
    return f"/groups/{quote(group, safe='')}"


def _preview(question: PageRequest, fields: Fields) -> Preview:
    with question.cluster.client() as client:
        _, reset = _planned(client, question, fields)
    return Preview(
        f"{counted(len(reset.changed), 'offset')} of {question.path['group']} would change.",
        ("topic", "partition", "committed", "new"),
        reset.rows(),
        "Reset them",
    )


WRITES = (
    ConsoleWrite(
        groups_page.PAGE_OF_ONE.path, "reset offsets", _reset, groups_page.PAGE_OF_ONE, _preview
    ),
)
