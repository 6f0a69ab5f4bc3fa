"""The common part of the entries in the table of kinds: the replay of records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, cast

from trimaran.broker.groups.heartbeating.group import HeartbeatGroup
from trimaran.broker.groups.memory import ByGroup
from trimaran.broker.groups.records import GroupRecord
from trimaran.broker.groups.store import GroupStore

AnyGroup = HeartbeatGroup[Any, Any]


class GroupKey(Protocol):
    """The key of a record of a group. The key of a member's record has a `member_id`, too."""

    @property
    def group_id(self) -> str: ...


def replays(
    name: str, make: Callable[[str], AnyGroup]
) -> Callable[[GroupStore, GroupRecord], None]:
    """Returns the `StoredKind.replay` of a kind: a group begins with its first record, and ends with its last
    tombstone. Its members are charged to their principals.
    """

    def replay(store: GroupStore, record: GroupRecord) -> None:
        group_id = cast(GroupKey, record.key).group_id
        groups: ByGroup[AnyGroup] = store.of(name)
        group = groups.get(group_id)
        if group is None:
            if record.value is None:
                return
            group = groups[group_id] = make(group_id)
            store.emptied.take(group_id)
        before = group.held_bytes
        group.apply(record.key, record.value)
        member = (group_id, getattr(record.key, "member_id", ""))
        if member[1] in group.members or member[1] in group.target:
            store.account.change(member, group.held_bytes - before)
        else:
            store.account.gone(member, before - group.held_bytes)
        if group.is_gone:
            del groups[group_id]

    return replay


def has_members(group: AnyGroup) -> bool:
    return not group.is_empty
