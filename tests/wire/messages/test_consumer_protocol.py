import pytest

from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)

SUBSCRIPTION = ConsumerProtocolSubscription(topics=["a", "b"], user_data=None)
ASSIGNMENT = ConsumerProtocolAssignment(
    assigned_partitions=[ConsumerProtocolAssignmentTopicPartition(topic="a", partitions=[0, 2])],
    user_data=b"u",
)


@pytest.mark.parametrize("version", range(4))
def test_subscription_and_assignment_round_trip(version):
    assert decode_subscription(encode_subscription(SUBSCRIPTION, version)) == SUBSCRIPTION
    assert decode_assignment(encode_assignment(ASSIGNMENT, version)) == ASSIGNMENT


def test_subscription_has_known_bytes():
    assert (
        encode_subscription(SUBSCRIPTION, 0).hex()
        == "0000" + "00000002" + "000161" + "000162" + "ffffffff"
    )


def test_later_versions_only_append():
    newer = b"\0\x09" + encode_subscription(SUBSCRIPTION, 3)[2:] + b"what comes then"
    assert decode_subscription(newer) == SUBSCRIPTION
    newer = b"\0\x09" + encode_assignment(ASSIGNMENT, 3)[2:] + b"what comes then"
    assert decode_assignment(newer) == ASSIGNMENT


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\0", b"\xff\xff\0\0\0\0", b"\0\0\0\0\0\1"])
def test_malformed_subscription_is_refused(data):
    for decode in (decode_subscription, decode_assignment):
        with pytest.raises(RemoteProtocolError):
            decode(data)
