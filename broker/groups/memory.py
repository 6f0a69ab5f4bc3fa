"""Bounds for the approximate memory of a broker's groups, in total and by principal.

Each shard counts the subscriptions and assignments of members, the matches of patterns, its groups and offsets, and the
metadata committed with offsets. A request that would exceed a bound is refused, and the members of one principal get at
most half. Loaded state is not charged to any principal, because records do not name one. Kafka has no such bound.
"""

from __future__ import annotations

from collections import Counter
from typing import NoReturn, TypeVar
from weakref import WeakSet

from trimaran.broker.coordination.memory import Account
from trimaran.node.text.memory import text_bytes

# The bound for all groups of a broker: enough for 20,000 members with subscriptions and assignments of 4 KiB.
GROUPS_BYTES_MAX = 128 << 20
# The bound for one principal; without authentication all clients have the same principal.
PRINCIPAL_BYTES_MAX = GROUPS_BYTES_MAX // 2
# The bound for metadata committed with offsets: enough for half a million offsets with a host name each.
OFFSET_METADATA_BYTES_MAX = 64 << 20

# The bound for all groups and offsets of a broker, including ids, with members or without: enough for 150,000 groups
# with an offset each, or a million offsets of larger groups.
KNOWN_BYTES_MAX = 256 << 20

# The costs of a group without its id (in each place that holds it), of a topic with offsets, and of an offset.
GROUP_BYTES = 1_024
TOPIC_BYTES = 256
OFFSET_BYTES = 256

# The costs of a member without its metadata, including its timers; of a member that only has an id; of an assigned
# partition; and of a name that a pattern matches.
MEMBER_BYTES = 2_048
PENDING_BYTES = 512
PARTITION_BYTES = 128
NAME_BYTES = 128

MemberKey = tuple[str, str]
"""Group and member id."""


V = TypeVar("V")


def group_bytes(group_id: str) -> int:
    """Returns the approximate size of a group in one of the places that hold it."""
    return GROUP_BYTES + text_bytes(group_id)


def topic_bytes(topic: str) -> int:
    """Returns the approximate size of a topic in a group's offsets, without the offsets."""
    return TOPIC_BYTES + text_bytes(topic)


class GroupAccount(Account):
    """The memory account of one shard."""

    _all: WeakSet[GroupAccount]

    def __init__(self, accounts: WeakSet[GroupAccount] | None = None) -> None:
        super().__init__(accounts)
        self._owners: dict[MemberKey, str] = {}
        self.by_principal = Counter[str]()
        self.offset_metadata_bytes = self.pending_metadata_bytes = 0
        # The bytes of groups with their offsets, and of offsets in open transactions.
        self.known_bytes = self.pending_known_bytes = 0

    def owned_by(self, member: MemberKey, principal: str) -> None:
        """Sets the principal that is charged for a new member from now on."""
        self._owners[member] = principal

    def owner(self, member: MemberKey) -> str:
        """Returns the principal of a member, or "" if unknown."""
        return self._owners.get(member, "")

    def change(self, member: MemberKey, more: int) -> None:
        """Adds `more` bytes to a member's account; the number may be negative."""
        self.bytes += more
        if (principal := self._owners.get(member)) is not None:
            self.by_principal[principal] += more

    def gone(self, member: MemberKey, less: int) -> None:
        """Removes a member with all its memory."""
        self.change(member, -less)
        principal = self._owners.pop(member, "")
        if not self.by_principal[principal]:
            del self.by_principal[principal]

    def member_fits(self, principal: str, more: int) -> bool:
        """Returns whether the limits for groups admit `more` bytes for a principal; a negative number always fits."""
        if more <= 0:
            return True
        of_one = sum(account.by_principal[principal] for account in self._all)
        return self.fits(more, GROUPS_BYTES_MAX) and of_one + more <= PRINCIPAL_BYTES_MAX

    def metadata_fits(self, more: int) -> bool:
        """Returns whether the limits for metadata of offsets admit `more` bytes."""
        if more <= 0:
            return True
        used = sum(
            account.offset_metadata_bytes + account.pending_metadata_bytes for account in self._all
        )
        return used + more <= OFFSET_METADATA_BYTES_MAX

    def known_room(self) -> int:
        """Returns the bytes left for groups and offsets on this broker; 0 or negative if it is full."""
        used = sum(account.known_bytes + account.pending_known_bytes for account in self._all)
        return KNOWN_BYTES_MAX - used


class ByGroup(dict[str, V]):
    """Values by group id. Each group is charged to an account while present; methods that would skip this raise
    TypeError.
    """

    def __init__(self, account: GroupAccount) -> None:
        super().__init__()
        self._account = account

    def __setitem__(self, group_id: str, value: V) -> None:
        if group_id not in self:
            self._account.known_bytes += group_bytes(group_id)
        super().__setitem__(group_id, value)

    def __delitem__(self, group_id: str) -> None:
        super().__delitem__(group_id)
        self._account.known_bytes -= group_bytes(group_id)

    def _refuse(self, *_arguments: object) -> NoReturn:
        raise TypeError("groups are counted: use [], del, and take")

    pop = setdefault = update = _refuse  # type: ignore[assignment]

    def take(self, group_id: str) -> V | None:
        """Removes a group and returns its value, or None if it is missing."""
        value = self.get(group_id)
        if value is not None:
            del self[group_id]
        return value
