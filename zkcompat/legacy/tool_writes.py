"""Where tools write, and what each of their znodes is about. Pure."""

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

# Below these, everything that is made, written or deleted is heard of.
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
# A znode for each of the children.
_PARENTS = {DELETE_TOPICS: RequestKind.DELETION, BROKER_TOPICS: RequestKind.TOPIC}


class ToolWrite(NamedTuple):
    """Something to look at: a request's znode, a topic's, or an entity whose znode is told of by notes.

    A topic's is of kind TOPIC whether it is new or gets partitions, an entity's CONFIG also if it has quotas.
    """

    kind: RequestKind
    path: str


def topic_name(tool_write: ToolWrite) -> str:
    """The last part of its path: the topic of a topic's."""
    return tool_write.path.rpartition("/")[2]


def tool_write_of(path: str) -> ToolWrite | None:
    """What a znode that changed is about; None for what tells nothing by itself: states, and notes."""
    if path in _SINGLE:
        return ToolWrite(_SINGLE[path], path)
    parent, _, name = path.rpartition("/")
    return ToolWrite(_PARENTS[parent], path) if name and parent in _PARENTS else None


def is_note(path: str) -> bool:
    """True for a note that tells of an entity's change."""
    return path.rpartition("/")[0] in NOTE_ROOTS


def has_change_note(path: str) -> bool:
    """True for the znode of an entity whose change a note will tell of."""
    return path.startswith(_WITH_CHANGE_NOTES) and not is_note(path)


def is_of_interest(path: str) -> bool:
    """False for what the mirror itself writes all the time."""
    return is_note(path) or tool_write_of(path) is not None or has_change_note(path)


def topic_write(path: str) -> ToolWrite | None:
    """The topic that a path of the mirrored tree belongs to."""
    for root in (BROKER_TOPICS, CONFIG_TOPICS):
        if path.startswith(f"{root}/"):
            name = path.removeprefix(f"{root}/").partition("/")[0]
            return ToolWrite(RequestKind.TOPIC, f"{BROKER_TOPICS}/{name}")
    return None
