"""How much memory the groups of a broker take, about, and for whom; so that there is an end to it.

Each shard counts what its members say and are assigned, what its patterns match and what was committed beside offsets.
Whoever would take more is refused, and no one principal has more than half. What was loaded counts for nobody in
particular, as records do not tell. Kafka has no such bound.
"""

from __future__ import annotations

from collections import Counter
from weakref import WeakSet

# Of all groups of a broker: 20,000 members with subscriptions and assignments of 4 KiB are less.
GROUPS_BYTES_MAX = 128 << 20
# Of one principal; without authentication all are one.
PRINCIPAL_BYTES_MAX = GROUPS_BYTES_MAX // 2
# Of metadata that clients commit with their offsets: half a million of them with a host name each are less.
OFFSET_METADATA_BYTES_MAX = 64 << 20

# What a member costs beside what it says, its timers included; one that has no more than an id; a partition that is
# somebody's; a name in what a pattern matches.
MEMBER_BYTES = 2_048
PENDING_BYTES = 512
PARTITION_BYTES = 128
NAME_BYTES = 128

MemberKey = tuple[str, str]
"""Group and member id."""


class Account:
    """What one shard holds."""

    def __init__(self, memory: GroupMemory | None = None) -> None:
        self._memory = GroupMemory() if memory is None else memory
        self._memory.accounts.add(self)
        self._owners: dict[MemberKey, str] = {}
        self.bytes = 0
        self.by_principal = Counter[str]()
        self.offset_metadata_bytes = self.pending_metadata_bytes = 0

    def owned_by(self, member: MemberKey, principal: str) -> None:
        """Who is asking for a new member: what it takes from now on counts for that principal."""
        self._owners[member] = principal

    def owner(self, member: MemberKey) -> str:
        """Whom a member counts for; "" for nobody in particular."""
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
        """Whether the groups of the broker may take so much more for a principal; less always fits."""
        return more <= 0 or self._memory.fits(principal, more)

    def metadata_fits(self, more: int) -> bool:
        """The same of what is committed with offsets."""
        return more <= 0 or self._memory.metadata_fits(more)

    def close(self) -> None:
        """The shard is gone."""
        self._memory.accounts.discard(self)


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
        used = sum(one.offset_metadata_bytes + one.pending_metadata_bytes for one in self.accounts)
        return used + more <= OFFSET_METADATA_BYTES_MAX
