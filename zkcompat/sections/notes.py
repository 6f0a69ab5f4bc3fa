"""Change notes: sequential znodes, and the roots below which they are written and swept. Pure.

Source: `ConfigEntityChangeNotificationSequenceZNode`, `AclChangeStore` and
`DelegationTokenChangeNotificationSequenceZNode` of Kafka's `ZkData.scala`.
"""

from __future__ import annotations

from trimaran.zkcompat.tree.operations import OperationKind, TreeOperation
from trimaran.zkcompat.znodes.acl_change import ACL_CHANGES, EXTENDED_ACL_CHANGES
from trimaran.zkcompat.znodes.config_change import (
    CONFIG_CHANGE_PREFIX,
    CONFIG_CHANGES,
    ConfigChangeNote,
)
from trimaran.zkcompat.znodes.delegation_token import TOKEN_CHANGES

# All of these are swept: brokers of ZooKeeper mode wrote the notes of the last two for a controller that is gone.
NOTE_ROOTS = (
    CONFIG_CHANGES,
    ACL_CHANGES,
    EXTENDED_ACL_CHANGES,
    TOKEN_CHANGES,
    "/isr_change_notification",
    "/log_dir_event_notification",
)


def note(prefix: str, data: bytes, sentence: str, name: str, about: str) -> TreeOperation:
    """Returns the operation that writes a note about a znode; ZooKeeper appends its number to `prefix`."""
    return TreeOperation(
        OperationKind.CREATE, prefix, name, sentence, data, sequential=True, about=about
    )


def config_note(path: str) -> TreeOperation:
    """Returns the operation that writes the note about the config znode at `path`, below `/config`."""
    entity_path = path.removeprefix("/config/")
    sentence = f"Telling of the changed config of {entity_path}"
    data = ConfigChangeNote(entity_path).encode()
    return note(CONFIG_CHANGE_PREFIX, data, sentence, "ConfigChange", path)
