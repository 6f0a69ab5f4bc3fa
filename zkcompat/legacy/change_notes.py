"""Notes of changed entities: which of them tools wrote. Pure.

A tool writes an entity's znode and then its note, in two transactions; a mirror writes both in one. So if the newest
note of an entity is younger than the last write of its znode, a tool wrote both. A znode that is gone tells nothing, so
when a mirror begins its parent does: no child of it has come or gone since the note, or somebody else may have deleted
it. Where nobody knows what stood there, the note must be younger than everything that a mirror wrote, which each time
moved `/migration`. While a mirror leads the image tells.
"""

from __future__ import annotations

from collections.abc import Mapping

from trimaran.zkcompat.legacy.requests.acls import resource_of_note
from trimaran.zkcompat.legacy.requests.admin_requests import RequestKind
from trimaran.zkcompat.legacy.requests.configs import entity_of_note
from trimaran.zkcompat.legacy.tool_writes import ToolWrite
from trimaran.zkcompat.tree.znode import FoundTree
from trimaran.zkcompat.znodes.acl_change import EXTENDED_ACL_CHANGES
from trimaran.zkcompat.znodes.config_change import CONFIG_CHANGES


def tool_write_of_note(path: str, data: bytes | None) -> ToolWrite | None:
    """The entity that a note tells of; None for nonsense."""
    root = path.rpartition("/")[0]
    if root == CONFIG_CHANGES:
        entity = entity_of_note(data)
        return None if entity is None else ToolWrite(RequestKind.CONFIG, entity.path)
    resource = resource_of_note(data, prefixed=root == EXTENDED_ACL_CHANGES)
    return None if resource is None else ToolWrite(RequestKind.ACL, resource.path)


def newest_notes(notes: FoundTree) -> dict[ToolWrite, int]:
    """By entity, when its newest note was written, as a zxid."""
    found: dict[ToolWrite, int] = {}
    for path, note in notes.items():
        tool_write = tool_write_of_note(path, note.data)
        if tool_write is not None:
            found[tool_write] = max(found.get(tool_write, 0), note.created_zxid)
    return found


def written_by_tools(
    notes: Mapping[ToolWrite, int], entities: FoundTree, gone: Mapping[str, int]
) -> list[ToolWrite]:
    """`entities` are the znodes of the subjects that there are; `gone` says of the paths of others that may be a tool's
    which zxid their notes are younger than.
    """
    return [
        tool_write
        for tool_write, written in notes.items()
        if (
            written > entities[tool_write.path].modified_zxid
            if tool_write.path in entities
            else written > gone.get(tool_write.path, written)
        )
    ]
