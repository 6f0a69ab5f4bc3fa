"""The topics that the members of a consumer group subscribe to, as far as they tell.

Source: `ClassicGroup.computeSubscribedTopics` (KAFKA-4682: offsets of topics that no member reads may expire).
Metadata is
opaque to the coordinator except for this: every version of the consumer protocol begins like version 0.
"""

from __future__ import annotations

from collections.abc import Collection

from trimaran.broker.groups.classic.member import Member
from trimaran.wire.errors import RemoteProtocolError

CONSUMER_PROTOCOL = "consumer"


def subscribed_topics(
    protocol_type: str | None, protocol_name: str | None, members: Collection[Member]
) -> frozenset[str] | None:
    """None if it is no consumer group, or one whose subscriptions cannot be read."""
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
