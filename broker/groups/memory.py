"""How much memory the groups of a broker take, about, and for whom; so that there is an end to it.

Each shard counts what its members say and are assigned, what its patterns match, which groups and offsets it knows, and
what was committed beside offsets. A request that would take more is refused, and no one principal's members have
more than half. Loaded state counts for no principal, as records do not name one. Kafka has no such bound.
"""

from __future__ import annotations

from collections import Counter
from typing import NoReturn, TypeVar
from weakref import WeakSet

from trimaran.node.text.memory import text_bytes

# The bound for all groups of a broker: 20,000 members with subscriptions and assignments of 4 KiB are less.
GROUPS_BYTES_MAX = 128 << 20
# The bound for one principal; without authentication all are one.
PRINCIPAL_BYTES_MAX = GROUPS_BYTES_MAX // 2
# The bound for metadata that clients commit with their offsets: half a million of them with a host name each are less.
OFFSET_METADATA_BYTES_MAX = 64 << 20

# The bound for all groups and offsets of a broker, ids included, with members or without. 150,000 groups with an offset
# each take less, and so do a million offsets of larger groups.
KNOWN_BYTES_MAX = 256 << 20

# The cost of a group without its id, in each place that keeps it; of a topic with offsets; of an offset.
GROUP_BYTES = 1_024
TOPIC_BYTES = 256
OFFSET_BYTES = 256

# The cost of a member without its metadata, its timers included; of a member with no more than an id; of an
# assigned partition; of a name that a pattern matches.
MEMBER_BYTES = 2_048
PENDING_BYTES = 512
PARTITION_BYTES = 128
NAME_BYTES = 128

MemberKey = tuple[str, str]
"""Group and member id."""


V = TypeVar("V")


def group_bytes(group_id: str) -> int:
    """Returns what a group takes in one of the places where it is known, about."""
    return GROUP_BYTES + text_bytes(group_id)


def topic_bytes(topic: str) -> int:
    """Returns what a topic of a group's offsets takes beside the offsets, about."""
    return TOPIC_BYTES + text_bytes(topic)


class Account:
    """The memory of one shard."""

    def __init__(self, memory: GroupMemory | None = None) -> None:
        self._memory = GroupMemory() if memory is None else memory
        self._memory.accounts.add(self)
        self._owners: dict[MemberKey, str] = {}
        self.bytes = 0
        self.by_principal = Counter[str]()
        self.offset_metadata_bytes = self.pending_metadata_bytes = 0
        # Bytes of groups with their offsets, and of offsets in open transactions.
        self.known_bytes = self.pending_known_bytes = 0

    def owned_by(self, member: MemberKey, principal: str) -> None:
        """Notes the principal of a new member: its memory counts for that principal from now on."""
        self._owners[member] = principal

    def owner(self, member: MemberKey) -> str:
        """Returns the principal of a member; "" if it is not known."""
        return self._owners.get(member, "")

    def change(self, member: MemberKey, more: int) -> None:
        """A member takes more, or less."""
        self.bytes += more
        if (principal := self._owners.get(member)) is not None:
            self.by_principal[principal] += more

    def gone(self, member: MemberKey, less: int) -> None:
        """A member, with all it took."""
        self.change(member, -less)
        principal = self._owners.pop(member, "")
        if not self.by_principal[principal]:
            del self.by_principal[principal]

    def fits(self, principal: str, more: int) -> bool:
        """Returns whether the groups of the broker may take this much more for a principal; less always fits."""
        return more <= 0 or self._memory.fits(principal, more)

    def metadata_fits(self, more: int) -> bool:
        """The same of what is committed with offsets."""
        return more <= 0 or self._memory.metadata_fits(more)

    def known_room(self) -> int:
        """Returns how many bytes more of groups and offsets the broker has room for; none, or less, when it is full."""
        return self._memory.known_room()

    def close(self) -> None:
        """The shard is gone."""
        self._memory.accounts.discard(self)


class ByGroup(dict[str, V]):
    """Values by group id. Each group counts in an account while it is there, so methods that would not count refuse."""

    def __init__(self, account: Account) -> None:
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
        """Removes a group, and returns its value; None if it is not there."""
        value = self.get(group_id)
        if value is not None:
            del self[group_id]
        return value


class GroupMemory:
    """All shards of a broker."""

    def __init__(self) -> None:
        # A shard that could not be loaded leaves none behind.
        self.accounts = WeakSet[Account]()

    def fits(self, principal: str, more: int) -> bool:
        of_all = sum(account.bytes for account in self.accounts)
        of_one = sum(account.by_principal[principal] for account in self.accounts)
        return of_all + more <= GROUPS_BYTES_MAX and of_one + more <= PRINCIPAL_BYTES_MAX

    def metadata_fits(self, more: int) -> bool:
        used = sum(
            account.offset_metadata_bytes + account.pending_metadata_bytes
            for account in self.accounts
        )
        return used + more <= OFFSET_METADATA_BYTES_MAX

    def known_room(self) -> int:
        used = sum(account.known_bytes + account.pending_known_bytes for account in self.accounts)
        return KNOWN_BYTES_MAX - used
