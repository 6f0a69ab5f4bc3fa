"""The connections of members that are about to join, so that such members do not long outlive their connections.

A client that received a member id must join with it; a client that has joined waits for a generation, and must then
sync. Each step may take as long as its session, up to half an hour. If the connection ends in between, the response is
lost; such a member has `ABANDONED_SECONDS` to return on another connection. In Kafka, such a member stays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from trimaran.broker.groups.classic.group import ClassicGroup
from trimaran.broker.groups.memory import MemberKey
from trimaran.node.text.memory import text_bytes

# The time that a client has for a new connection. Clients reconnect after 100 ms, and at the latest after 1 s
# (`reconnect.backoff.max.ms`).
ABANDONED_SECONDS = 10.0
# The members kept per connection; above that, members that are no longer about to join are dropped.
KEPT_PER_CONNECTION = 1_000
# The same limit in bytes of ids, for long ids.
KEPT_BYTES_PER_CONNECTION = 1 << 20


def is_arriving(groups: Mapping[str, ClassicGroup], key: MemberKey) -> bool:
    """Returns whether a member waits for its first generation, or has not sent a request since it received one."""
    group = groups.get(key[0])
    if group is None:
        return False
    member = group.members.get(key[1])
    is_new = key[1] in group.pending if member is None else member.is_new
    return is_new or key[1] in group.awaiting_sync


class Arrivals:
    """The members of one shard; `is_awaited` returns whether a member is still about to join (`is_arriving`)."""

    def __init__(self, is_awaited: Callable[[MemberKey], bool]) -> None:
        self._is_awaited = is_awaited
        self._by_connection: dict[int, set[MemberKey]] = {}
        self._connection_of: dict[MemberKey, int] = {}
        # The bytes of ids noted since the last check of a connection's members.
        self._noted_bytes = Counter[int]()

    def note(self, member: MemberKey, connection: int) -> None:
        """Notes that a client sent a join on this connection as this member, if the member is still about to join."""
        if not self._is_awaited(member):
            return
        before = self._connection_of.get(member)
        if before is not None and before != connection:
            self._by_connection[before].discard(member)
        self._connection_of[member] = connection
        known = self._by_connection.setdefault(connection, set())
        known.add(member)
        self._noted_bytes[connection] += sum(map(text_bytes, member))
        are_long = self._noted_bytes[connection] >= KEPT_BYTES_PER_CONNECTION
        if are_long or len(known) % KEPT_PER_CONNECTION == 0:
            del self._noted_bytes[connection]
            for gone in [key for key in known if not self._is_awaited(key)]:
                known.remove(gone)
                del self._connection_of[gone]

    def closed(self, connection: int) -> list[MemberKey]:
        """Returns the members of a closed connection that are about to join and have not returned on another one."""
        members = self._by_connection.pop(connection, set())
        del self._noted_bytes[connection]
        for member in members:
            del self._connection_of[member]
        return [member for member in members if self._is_awaited(member)]
