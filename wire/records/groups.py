"""Records of `__consumer_offsets`: classic groups and offsets.

A key is its int16 type (the `KEY` of its class) and its fields; a value is an int16 version and its
fields. Key type 0 is that of Kafka before 0.9: the same form as type 1, with a value of version 0.
The records of other groups are declared in `consumer_groups`, `share_groups` and `streams_groups`;
those of consumer groups are also read and written here.
"""

import struct
from collections.abc import Callable, Iterable, Sequence
from functools import cache

from trimaran.wire.buffers.primitives import NIL_UUID
from trimaran.wire.codec.declarations import Struct, data, field, int32, int64, string, uuid
from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.records.consumer_groups import (
    CONSUMER_GROUP_RECORDS,
    ConsumerGroupKey,
    ConsumerGroupValue,
)
from trimaran.wire.schema import Message, message


@message(key=0, versions="0")
class LegacyOffsetCommitKey(Message):
    group: string
    topic: string
    partition: int32


@message(key=0, versions="0")
class LegacyOffsetCommitValue(Message):
    offset: int64
    metadata: string
    commit_timestamp: int64


@message(key=1, versions="0")
class OffsetCommitKey(Message):
    group: string
    topic: string
    partition: int32


@message(key=1, versions="0-4", flexible="4+")
class OffsetCommitValue(Message):
    offset: int64
    leader_epoch: int32 = field("3+", default=-1, ignorable=True)
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


ClassicKey = OffsetCommitKey | GroupMetadataKey
GroupKey = ClassicKey | ConsumerGroupKey
GroupValue = OffsetCommitValue | GroupMetadataValue | ConsumerGroupValue

_TYPE = struct.Struct(">h")
_OFFSET_KEYS = (LegacyOffsetCommitKey.KEY, OffsetCommitKey.KEY)


def encode_group_key(key: GroupKey) -> bytes:
    """Encodes the key of a record, preceded by its type."""
    return _TYPE.pack(key.KEY) + key.encode(0)


def decode_group_key(view: bytes | memoryview) -> ClassicKey | None:
    """Decodes the key of an offset or a classic group; returns None for another type.

    Raises:
        RemoteProtocolError: the bytes are malformed.
    """
    prefix = view[:2]
    decode = _KEY_DECODERS.get(prefix) or _key_decoder(prefix)
    return None if decode is None else decode(view[2:])


def encode_group_value(value: GroupValue, version: int) -> bytes:
    """Encodes the value of a record, preceded by its version.

    Raises:
        LocalProtocolError: as `Message.encode` does.
    """
    return _TYPE.pack(version) + value.encode(version)


def decode_offset_commit_value(view: bytes | memoryview) -> OffsetCommitValue:
    """Decodes the value of an `OffsetCommitKey`.

    Raises:
        RemoteProtocolError: the bytes are malformed.
    """
    return _offset_decoder(bytes(view[:2]))(view[2:])


def decode_offset_commit_values(values: Sequence[bytes]) -> list[OffsetCommitValue]:
    """Decodes each like `decode_offset_commit_value`, several times as fast if they have the same version."""
    if not values:
        return []
    prefix = values[0][:2]
    found = _bulk_offset_decoder(prefix)(values, prefix)
    return [decode_offset_commit_value(value) for value in values] if found is None else found


def decode_group_metadata_value(view: bytes | memoryview) -> GroupMetadataValue:
    """Decodes the value of a `GroupMetadataKey`.

    Raises:
        RemoteProtocolError: the bytes are malformed.
    """
    return GroupMetadataValue.decode(view[2:], _read_prefix(view))


def decode_consumer_group_key(view: bytes | memoryview) -> ConsumerGroupKey | None:
    """Decodes the key of a record of a consumer group; returns None for another type.

    Raises:
        RemoteProtocolError: the bytes are malformed.
    """
    classes = CONSUMER_GROUP_RECORDS.get(_read_prefix(view))
    return None if classes is None else classes[0].decode(view[2:], 0)


def decode_consumer_group_value(
    key: ConsumerGroupKey, view: bytes | memoryview
) -> ConsumerGroupValue:
    """Decodes the value of a record of a consumer group.

    Raises:
        RemoteProtocolError: the bytes are malformed.
    """
    return CONSUMER_GROUP_RECORDS[key.KEY][1].decode(view[2:], _read_prefix(view))


# Decoders by the two bytes of the type or version, created at the first use: a coordinator decodes millions of keys and
# offsets when it loads.
_KEY_DECODERS: dict[bytes | memoryview, Callable[[bytes | memoryview], ClassicKey]] = {}


def _key_decoder(prefix: bytes | memoryview) -> Callable[[bytes | memoryview], ClassicKey] | None:
    key_type = _read_prefix(prefix)
    if key_type in _OFFSET_KEYS:
        decode: Callable[[bytes | memoryview], ClassicKey] = OffsetCommitKey.decoder(0)
    elif key_type == GroupMetadataKey.KEY:
        decode = GroupMetadataKey.decoder(0)
    else:
        return None
    return _KEY_DECODERS.setdefault(bytes(prefix), decode)


@cache
def _offset_decoder(prefix: bytes) -> Callable[[bytes | memoryview], OffsetCommitValue]:
    return OffsetCommitValue.decoder(_read_prefix(prefix))


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
