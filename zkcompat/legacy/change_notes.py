"""Change notes: finds those that tools wrote. Pure.

A tool writes an entity's znode and then its note, in two transactions; a mirror writes both in one. So if the newest
note of an entity is newer than the last write of its znode, a tool wrote both. If the znode does not exist:
- while a mirror leads, every note counts, because the image shows whether the entity has changed;
- when a mirror begins and the image before its tenure is known, the note of a znode in that image counts if it is newer
  than the last creation or deletion of a child of the parent: an older note may be followed by a deletion of another
  client;
- if that image is not known, the note counts if it is newer than the last transaction of the previous mirror.
"""

from __future__ import annotations

from collections.abc import Mapping

from trimaran.zkcompat.legacy.requests.acls import resource_of_note
from trimaran.zkcompat.legacy.requests.admin_requests import RequestKind
from trimaran.zkcompat.legacy.requests.configs import entity_of_note
from trimaran.zkcompat.legacy.tool_writes import ToolWrite
from trimaran.zkcompat.tree.operations import FoundTree
from trimaran.zkcompat.znodes.acl_change import EXTENDED_ACL_CHANGES
from trimaran.zkcompat.znodes.config_change import CONFIG_CHANGES


def tool_write_of_note(path: str, data: bytes | None) -> ToolWrite | None:
    """Returns the entity of a note; None if the note is malformed."""
    root = path.rpartition("/")[0]
    if root == CONFIG_CHANGES:
        entity = entity_of_note(data)
        return None if entity is None else ToolWrite(RequestKind.CONFIG, entity.path)
    resource = resource_of_note(data, prefixed=root == EXTENDED_ACL_CHANGES)
    return None if resource is None else ToolWrite(RequestKind.ACL, resource.path)


def newest_notes(notes: FoundTree) -> dict[ToolWrite, int]:
    """Returns for each entity the zxid at which its newest note was written."""
    found: dict[ToolWrite, int] = {}
    for path, note in notes.items():
        tool_write = tool_write_of_note(path, note.data)
        if tool_write is not None:
            found[tool_write] = max(found.get(tool_write, 0), note.created_zxid)
    return found


def written_by_tools(
    notes: Mapping[ToolWrite, int], entities: FoundTree, gone: Mapping[str, int]
) -> list[ToolWrite]:
    """Returns the entities that tools have written. `entities` are the znodes that exist; `gone` has, for missing
    znodes by path, the zxid after which a tool's note must have been written.
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
