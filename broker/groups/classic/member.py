"""One member of a classic group, and the topics to which members subscribe.

Source: Kafka's `ClassicGroupMember`. `GroupAccount` has the principal of a member.
"""

from __future__ import annotations

from collections.abc import Collection, Container
from dataclasses import dataclass

from trimaran.broker.groups.memory import MEMBER_BYTES
from trimaran.node.replicated.pending import PendingResponse
from trimaran.node.text.memory import text_bytes
from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.messages.consumer_protocol import decode_topics
from trimaran.wire.messages.join_group import JoinGroupResponse
from trimaran.wire.messages.sync_group import SyncGroupResponse

Protocols = tuple[tuple[str, bytes], ...]
"""The assignors that a member supports, the preferred one first, each with the member's metadata."""


def size_of(protocols: Protocols) -> int:
    """Returns the size in bytes, approximately: a name counts one byte per character."""
    return sum(len(name) + len(metadata) for name, metadata in protocols)


@dataclass(slots=True, eq=False)
class Member:
    """A member of a classic group. `join` and `sync` are its waiting requests: at most one of each, or None."""

    id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    assignment: bytes = b""
    # The member has not received a generation yet and cannot heartbeat: a waiting join does not keep it alive.
    is_new: bool = False
    # The connection of the member has closed since it joined: a response to it does not extend its session.
    is_abandoned: bool = False
    join: PendingResponse[JoinGroupResponse] | None = None
    sync: PendingResponse[SyncGroupResponse] | None = None

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def satisfies_heartbeat(self) -> bool:
        """Whether the session continues: a member that waits for a response is alive, except for new members
        (KAFKA-9752).
        """
        return not self.is_new and (self.join is not None or self.sync is not None)

    @property
    def held_bytes(self) -> int:
        """The approximate size of the member, in bytes."""
        texts = (self.id, self.client_id, self.client_host, self.instance_id or "")
        said = size_of(self.protocols) + len(self.assignment)
        return MEMBER_BYTES + sum(map(text_bytes, texts)) + said

    def metadata(self, protocol: str | None) -> bytes:
        """Returns this member's metadata for the protocol of its generation, which it must support."""
        return next(metadata for name, metadata in self.protocols if name == protocol)

    def vote(self, candidates: Container[str]) -> str:
        """Returns the member's preferred protocol among the candidates, which all members support."""
        return next(name for name, _ in self.protocols if name in candidates)

    def describe(self, leads: bool) -> str:
        """Returns a short text for logs and transcripts; the leader has a star."""
        words = [self.id + "*" * leads]
        words += ["new"] * self.is_new
        words += ["joining"] * (self.join is not None)
        words += ["syncing"] * (self.sync is not None)
        return " ".join(words)


CONSUMER_PROTOCOL = "consumer"


def subscribed_topics(
    protocol_type: str | None, protocol_name: str | None, members: Collection[Member]
) -> frozenset[str] | None:
    """Returns the topics to which members subscribe; None if this is not a consumer group, or a subscription cannot be
    parsed.

    Metadata is otherwise opaque to the coordinator; every version of the consumer protocol begins like version 0.
    Source: `ClassicGroup.computeSubscribedTopics` (KAFKA-4682: offsets of topics without subscribers may expire).
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
            topics.update(decode_topics(member.metadata(protocol_name)))
    except RemoteProtocolError:
        return None
    return frozenset(topics)
