"""One member of a classic group.

Source: Kafka's `ClassicGroupMember`. See `Account` for the principal of a member.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from trimaran.broker.groups.memory import MEMBER_BYTES
from trimaran.node.replicated.pending import PendingResponse
from trimaran.node.text.memory import text_bytes
from trimaran.wire.messages.join_group import JoinGroupResponse
from trimaran.wire.messages.sync_group import SyncGroupResponse

Protocols = tuple[tuple[str, bytes], ...]
"""Assignors a member supports, the preferred first, each with the member's metadata for it."""


def size_of(protocols: Protocols) -> int:
    """In bytes, about: names are short and mostly ASCII."""
    return sum(len(name) + len(metadata) for name, metadata in protocols)


@dataclass(slots=True, eq=False)
class Member:
    """`join` and `sync` are the awaiting requests of this member: at most one of each, None when there is none."""

    id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    assignment: bytes = b""
    # Has not been told a generation yet, so it cannot heartbeat: an awaiting join does not keep it alive.
    is_new: bool = False
    # Its connection has ended since it joined: a response to it is no reason to expect it for longer.
    is_abandoned: bool = False
    join: PendingResponse[JoinGroupResponse] | None = None
    sync: PendingResponse[SyncGroupResponse] | None = None

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def satisfies_heartbeat(self) -> bool:
        """Waiting for us counts as alive, except for new members (KAFKA-9752)."""
        return not self.is_new and (self.join is not None or self.sync is not None)

    @property
    def held_bytes(self) -> int:
        """Returns about how many bytes the member takes."""
        texts = (self.id, self.client_id, self.client_host, self.instance_id or "")
        said = size_of(self.protocols) + len(self.assignment)
        return MEMBER_BYTES + sum(map(text_bytes, texts)) + said

    def metadata(self, protocol: str) -> bytes:
        """Returns the metadata of this member for `protocol`, which it supports."""
        return next(metadata for name, metadata in self.protocols if name == protocol)

    def vote(self, candidates: Container[str]) -> str:
        """Returns the member's favourite among candidates that all members support."""
        return next(name for name, _ in self.protocols if name in candidates)

    def describe(self, leads: bool) -> str:
        """One word or more for logs and transcripts; a star for the leader."""
        words = [self.id + "*" * leads]
        words += ["new"] * self.is_new
        words += ["joining"] * (self.join is not None)
        words += ["syncing"] * (self.sync is not None)
        return " ".join(words)
