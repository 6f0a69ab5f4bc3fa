"""Records of `__consumer_offsets`: classic groups and offsets.

A key is its int16 type (the `KEY` of its class) and its fields; a value is an int16 version and its
fields. Kafka before 0.9 used key type 0: it has the same format as type 1, with a value of version 0.
The records of other groups are declared in `consumer_groups`, `share_groups` and `streams_groups`;
they are all encoded and decoded here.
"""

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import TypeVar

from trimaran.wire.buffers.primitives import NIL_UUID
from trimaran.wire.codec.declarations import (
    Struct,
    data,
    field,
    int32,
    int32_leader_epoch,
    int64,
    int64_offset,
    string,
    uuid,
)
from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.schema import Message, message


@message(key=0, versions="0")
class LegacyOffsetCommitKey(Message):
    group: string
    topic: string
    partition: int32


@message(key=0, versions="0")
class LegacyOffsetCommitValue(Message):
    offset: int64_offset
    metadata: string
    commit_timestamp: int64


@message(key=1, versions="0")
class OffsetCommitKey(Message):
    group: string
    topic: string
    partition: int32


@message(key=1, versions="0-4", flexible="4+")
class OffsetCommitValue(Message):
    offset: int64_offset
    leader_epoch: int32_leader_epoch = field("3+", default=-1, ignorable=True)
    metadata: string
    commit_timestamp: int64
    expire_timestamp: int64 = field("1", default=-1, ignorable=True)
    topic_id: uuid = field("4+", default=NIL_UUID, tag=0, ignorable=True)


@message(key=2, versions="0")
class GroupMetadataKey(Message):
    group: string


class MemberMetadata(Struct):
    member_id: string
    group_instance_id: string | None = field("3+", default=None, ignorable=True)
    client_id: string
    client_host: string
    rebalance_timeout: int32 = field("1+", default=-1, ignorable=True)
    session_timeout: int32
    subscription: data
    assignment: data


@message(key=2, versions="0-4", flexible="4+")
class GroupMetadataValue(Message):
    protocol_type: string
    generation: int32
    protocol: string | None
    leader: string | None
    current_state_timestamp: int64 = field("2+", default=-1, ignorable=True)
    members: list[MemberMetadata]


K = TypeVar("K", bound=Message)
V = TypeVar("V", bound=Message)

_TYPE = struct.Struct(">h")


def encode_group_key(key: Message) -> bytes:
    """Encodes the key of a record, preceded by its type."""
    return _TYPE.pack(key.KEY) + key.encode(0)


def group_key_type(view: bytes | memoryview) -> int:
    """Returns the type of a key.

    Raises:
        RemoteProtocolError: the key is too short.
    """
    return _read_prefix(view)


def decode_group_key(view: bytes | memoryview, classes: Mapping[int, type[K]]) -> K | None:
    """Decodes a key by the class of its type; returns None for another type.

    Raises:
        RemoteProtocolError: the bytes are malformed.
    """
    cls = classes.get(_read_prefix(view))
    return None if cls is None else cls.decode(view[2:], 0)


def encode_group_value(value: Message, version: int) -> bytes:
    """Encodes the value of a record, preceded by its version.

    Raises:
        LocalProtocolError: as `Message.encode` does.
    """
    return _TYPE.pack(version) + value.encode(version)


def decode_group_value(view: bytes | memoryview, cls: type[V]) -> V:
    """Decodes the value of a record, in any version.

    Raises:
        RemoteProtocolError: the bytes are malformed.
    """
    decode: Callable[[bytes | memoryview], V] = group_value_decoder(cls, bytes(view[:2]))
    return decode(view[2:])


@cache
def group_value_decoder(cls: type[V], prefix: bytes) -> Callable[[bytes | memoryview], V]:
    """Returns the decoder of the values that follow the two bytes of a version. It is created once per version, because
    a coordinator decodes millions of values when it loads.

    Raises:
        RemoteProtocolError: the class has no such version.
    """
    return cls.decoder(_read_prefix(prefix))


def decode_offset_commit_values(values: Sequence[bytes]) -> list[OffsetCommitValue]:
    """Decodes each value as `decode_group_value` does, several times as fast if they have the same version."""
    if not values:
        return []
    prefix = values[0][:2]
    found = _bulk_offset_decoder(prefix)(values, prefix)
    if found is None:
        return [decode_group_value(value, OffsetCommitValue) for value in values]
    return found


@cache
def _bulk_offset_decoder(
    prefix: bytes,
) -> Callable[[Iterable[bytes], bytes], list[OffsetCommitValue] | None]:
    return OffsetCommitValue.bulk_decoder(_read_prefix(prefix))


def _read_prefix(view: bytes | memoryview) -> int:
    try:
        prefix: int = _TYPE.unpack_from(view)[0]
    except struct.error:
        raise RemoteProtocolError("a group record is too short for its type or version") from None
    return prefix
