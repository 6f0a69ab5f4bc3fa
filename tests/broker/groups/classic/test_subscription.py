"""The part of a member's subscription that the coordinator reads."""

from __future__ import annotations

import pytest

from tests.broker.groups.classic.test_group import member
from trimaran.broker.groups.classic.member import subscribed_topics
from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.messages.consumer_protocol import decode_topics


def subscription(count: int, *topics: bytes) -> bytes:
    names = b"".join(len(name).to_bytes(2, "big") + name for name in topics)
    return b"\0\1" + count.to_bytes(4, "big", signed=True) + names + b"what newer versions add"


def test_named_topics_are_read():
    assert decode_topics(subscription(2, b"orders", b"")) == ["orders", ""]
    assert decode_topics(subscription(0)) == []
    assert decode_topics(subscription(0)[:6]) == []
    # No field follows the last name.
    assert decode_topics(subscription(10, *[b""] * 10)[: 6 + 20]) == [""] * 10
    assert decode_topics(subscription(1, b"orders")[: 6 + 8]) == ["orders"]


def test_members_without_protocol_have_unknown_subscriptions():
    """A stored record may have members without a protocol."""
    assert subscribed_topics("consumer", None, [member("a")]) is None
    assert subscribed_topics("consumer", None, []) == frozenset()
    assert subscribed_topics("connect", "range", [member("a")]) is None


@pytest.mark.parametrize("size", [0, 2, 5])
def test_truncated_subscription_is_refused(size):
    with pytest.raises(RemoteProtocolError, match="without topics"):
        decode_topics(subscription(0)[:size])


@pytest.mark.parametrize("count", [-1, 1 << 24, 1 << 30])
def test_count_beyond_available_bytes_is_refused(count):
    with pytest.raises(RemoteProtocolError, match="without topics"):
        decode_topics(subscription(count, b"orders"))


def test_invalid_topic_name_is_refused():
    with pytest.raises(RemoteProtocolError, match="cut off"):
        decode_topics(subscription(1)[:6] + b"\0\5abc")
    with pytest.raises(RemoteProtocolError, match="UTF-8"):
        decode_topics(subscription(1, b"\xff"))
