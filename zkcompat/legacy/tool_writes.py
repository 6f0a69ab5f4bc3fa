"""The paths to which tools write, and the meaning of each. Pure."""

from __future__ import annotations

from typing import NamedTuple

from trimaran.zkcompat.legacy.requests.admin_requests import RequestKind
from trimaran.zkcompat.legacy.requests.deletions import DELETE_TOPICS
from trimaran.zkcompat.legacy.requests.elections import PREFERRED_REPLICA_ELECTION
from trimaran.zkcompat.legacy.requests.reassignments import REASSIGN_PARTITIONS
from trimaran.zkcompat.znodes.acl_change import ACL_CHANGES, EXTENDED_ACL_CHANGES
from trimaran.zkcompat.znodes.acl_entries import ACLS
from trimaran.zkcompat.znodes.config_change import CONFIG_CHANGES
from trimaran.zkcompat.znodes.entity_config import CONFIG_TOPICS
from trimaran.zkcompat.znodes.topic_assignment import BROKER_TOPICS

# Watched recursively: every znode at or below these that is created, written or deleted.
WATCHED = (
    "/admin",
    BROKER_TOPICS,
    "/config",
    ACLS,
    "/kafka-acl-extended",
    ACL_CHANGES,
    EXTENDED_ACL_CHANGES,
)
NOTE_ROOTS = (CONFIG_CHANGES, ACL_CHANGES, EXTENDED_ACL_CHANGES)
_WITH_CHANGE_NOTES = ("/config/", f"{ACLS}/", "/kafka-acl-extended/")

_SINGLE = {
    REASSIGN_PARTITIONS: RequestKind.REASSIGNMENT,
    PREFERRED_REPLICA_ELECTION: RequestKind.ELECTION,
}
# Each child is a separate write.
_PARENTS = {DELETE_TOPICS: RequestKind.DELETION, BROKER_TOPICS: RequestKind.TOPIC}


class ToolWrite(NamedTuple):
    """A znode that a tool may have written: the znode of a request, of a topic, or of an entity with change notes.

    For a topic the kind is TOPIC whether it is new or gets partitions; for an entity it is CONFIG even if it has
    quotas.
    """

    kind: RequestKind
    path: str


def topic_name(tool_write: ToolWrite) -> str:
    """Returns the last part of the path: the topic, for a topic's write."""
    return tool_write.path.rpartition("/")[2]


def tool_write_of(path: str) -> ToolWrite | None:
    """Returns the write for a changed znode; None for states and notes, which are not writes by themselves."""
    if path in _SINGLE:
        return ToolWrite(_SINGLE[path], path)
    parent, _, name = path.rpartition("/")
    return ToolWrite(_PARENTS[parent], path) if name and parent in _PARENTS else None


def is_note(path: str) -> bool:
    """True for a change note."""
    return path.rpartition("/")[0] in NOTE_ROOTS


def has_change_note(path: str) -> bool:
    """True for the znode of an entity whose changes are followed by a note."""
    return path.startswith(_WITH_CHANGE_NOTES) and not is_note(path)


def is_of_interest(path: str) -> bool:
    """True unless the mirror itself writes the path all the time."""
    return is_note(path) or tool_write_of(path) is not None or has_change_note(path)


def topic_write(path: str) -> ToolWrite | None:
    """Returns the topic of a path of the mirrored tree."""
    for root in (BROKER_TOPICS, CONFIG_TOPICS):
        if path.startswith(f"{root}/"):
            name = path.removeprefix(f"{root}/").partition("/")[0]
            return ToolWrite(RequestKind.TOPIC, f"{BROKER_TOPICS}/{name}")
    return None
