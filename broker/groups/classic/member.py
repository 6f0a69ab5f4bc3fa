"""One member of a classic group, and the topics that members subscribe to.

Source: Kafka's `ClassicGroupMember`. See `Account` for the principal of a member.
"""

from __future__ import annotations

from collections.abc import Collection, Container
from dataclasses import dataclass

from trimaran.broker.groups.memory import MEMBER_BYTES
from trimaran.node.replicated.pending import PendingResponse
from trimaran.node.text.memory import text_bytes
from trimaran.wire.errors import RemoteProtocolError
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


CONSUMER_PROTOCOL = "consumer"


def subscribed_topics(
    protocol_type: str | None, protocol_name: str | None, members: Collection[Member]
) -> frozenset[str] | None:
    """Returns the topics that members subscribe to, as far as they tell; None if they are no consumer group, or one
    whose subscriptions cannot be read.

    Metadata is opaque to the coordinator except for this: every version of the consumer protocol begins like version 0.
    Source: `ClassicGroup.computeSubscribedTopics` (KAFKA-4682: offsets of topics that no member reads may expire).
    """
    if protocol_type != CONSUMER_PROTOCOL:
        return None
    if not members:
        return frozenset()
    if protocol_name is None:
        return None
    topics: set[str] = set()
    try:
        for member in members:
            topics.update(_topics_of(member.metadata(protocol_name)))
    except RemoteProtocolError:
        return None
    return frozenset(topics)


def _topics_of(metadata: bytes) -> list[str]:
    """Reads `int16 version, array of topics` and leaves the rest.

    Raises:
        RemoteProtocolError: the bytes are something else.
    """
    try:
        count = int.from_bytes(metadata[2:6], "big", signed=True)
        if len(metadata) < 6 or not 0 <= count * 2 <= len(metadata):
            raise RemoteProtocolError("a subscription without topics")
        topics, position = [], 6
        for _ in range(count):
            end = position + 2 + int.from_bytes(metadata[position : position + 2], "big")
            if end > len(metadata):
                raise RemoteProtocolError("a subscription is cut off")
            topics.append(metadata[position + 2 : end].decode())
            position = end
    except UnicodeDecodeError as error:
        raise RemoteProtocolError(f"a topic in a subscription is not UTF-8: {error}") from None
    return topics
