"""The data of consumers in JoinGroup and SyncGroup: subscription and assignment.

Both are preceded by their int16 version; a classic group's coordinator does not parse them.
Versions: 1 owned partitions (KIP-429); 2 the generation (KIP-792); 3 the rack (KIP-881).
"""

import struct

from trimaran.wire.codec.declarations import Struct, data, field, int32, string
from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.schema import Message, message


class ConsumerProtocolSubscriptionTopicPartition(Struct):
    topic: string
    partitions: list[int32]


@message(versions="0-3")
class ConsumerProtocolSubscription(Message):
    topics: list[string]
    user_data: data | None = None
    owned_partitions: list[ConsumerProtocolSubscriptionTopicPartition] = field(
        "1+", factory=list, ignorable=True
    )
    generation_id: int32 = field("2+", default=-1, ignorable=True)
    rack_id: string | None = field("3+", default=None, ignorable=True)


class ConsumerProtocolAssignmentTopicPartition(Struct):
    topic: string
    partitions: list[int32]


@message(versions="0-3")
class ConsumerProtocolAssignment(Message):
    assigned_partitions: list[ConsumerProtocolAssignmentTopicPartition]
    user_data: data | None = None


_VERSION = struct.Struct(">h")


def encode_subscription(subscription: ConsumerProtocolSubscription, version: int) -> bytes:
    """Returns the metadata with which a consumer joins.

    Raises:
        LocalProtocolError: as `Message.encode` does.
    """
    return _VERSION.pack(version) + subscription.encode(version)


def decode_subscription(view: bytes | memoryview) -> ConsumerProtocolSubscription:
    """Returns the metadata with which a consumer joined.

    Raises:
        RemoteProtocolError: the bytes are malformed.
    """
    version = _version(view, ConsumerProtocolSubscription.VERSIONS.high)
    return ConsumerProtocolSubscription.decode_prefix(view[2:], version)[0]


def decode_topics(metadata: bytes) -> list[str]:
    """Returns the topics of a subscription: `int16 version, array of topics`; ignores the rest, so any version is read.

    Raises:
        RemoteProtocolError: the bytes are malformed.
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


def encode_assignment(assignment: ConsumerProtocolAssignment, version: int) -> bytes:
    """Returns the bytes that the leader of a group sends for one member.

    Raises:
        LocalProtocolError: as `Message.encode` does.
    """
    return _VERSION.pack(version) + assignment.encode(version)


def decode_assignment(view: bytes | memoryview) -> ConsumerProtocolAssignment:
    """Returns the assignment that the leader of a group sent for one member.

    Raises:
        RemoteProtocolError: the bytes are malformed.
    """
    version = _version(view, ConsumerProtocolAssignment.VERSIONS.high)
    return ConsumerProtocolAssignment.decode_prefix(view[2:], version)[0]


def _version(view: bytes | memoryview, highest: int) -> int:
    """Returns the version to read with. Later versions only append fields, so our highest version reads the beginning
    of any of them.
    """
    if len(view) < _VERSION.size:
        raise RemoteProtocolError("a subscription or assignment is too short for its version")
    version: int = _VERSION.unpack_from(view, 0)[0]
    return min(version, highest)
