"""Control records: the log's own state (transaction ends, Raft leaders, snapshots).

A control record's key is int16 version and int16 type. Its value is one of the messages below, with the version as an
ordinary first field. An EndTxnMarker is preceded by its int16 version.
"""

import struct
from enum import IntEnum

from trimaran.wire.buffers.primitives import NIL_UUID
from trimaran.wire.codec.declarations import (
    Struct,
    field,
    int16,
    int32_coordinator_epoch,
    int32_node_id,
    int64,
    string,
    uint16,
    uuid,
)
from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.schema import Message, message


@message(versions="0")
class ControlRecordTypeSchema(Message):
    type: int16


@message(versions="0")
class EndTxnMarker(Message):
    coordinator_epoch: int32_coordinator_epoch


class LeaderChangeMessageVoter(Struct):
    voter_id: int32_node_id
    voter_directory_id: uuid = field("1+", default=NIL_UUID)


@message(versions="0-1", flexible="0+")
class LeaderChangeMessage(Message):
    version: int16
    leader_id: int32_node_id
    voters: list[LeaderChangeMessageVoter]
    granting_voters: list[LeaderChangeMessageVoter]


@message(versions="0", flexible="0+")
class SnapshotHeaderRecord(Message):
    version: int16
    last_contained_log_timestamp: int64


@message(versions="0", flexible="0+")
class SnapshotFooterRecord(Message):
    version: int16


@message(versions="0", flexible="0+")
class KRaftVersionRecord(Message):
    version: int16
    kraft_version: int16


class Endpoint(Struct):
    name: string
    host: string
    port: uint16


class KRaftVersionFeature(Struct):
    min_supported_version: int16
    max_supported_version: int16


class VotersRecordVoter(Struct):
    voter_id: int32_node_id
    voter_directory_id: uuid
    endpoints: list[Endpoint]
    kraft_version_feature: KRaftVersionFeature


@message(versions="0", flexible="0+")
class VotersRecord(Message):
    version: int16
    voters: list[VotersRecordVoter]


class ControlType(IntEnum):
    """The type in a control record's key."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6
    UNKNOWN = -1


_KEY = struct.Struct(">hh")
_KEY_VERSION = 0


def encode_control_key(control_type: ControlType) -> bytes:
    """Encodes the key of a control record."""
    return _KEY.pack(_KEY_VERSION, control_type)


def decode_control_key(key: bytes | memoryview) -> ControlType:
    """Returns the type in a control record's key; UNKNOWN for a type of a later Kafka, which is skipped.

    Raises:
        RemoteProtocolError: the key is too short, or its version is negative.
    """
    if len(key) < _KEY.size:
        raise RemoteProtocolError(f"a control record's key has {len(key)} bytes, not {_KEY.size}")
    version, control_type = _KEY.unpack_from(key, 0)
    if version < _KEY_VERSION:
        raise RemoteProtocolError(f"a control record's key has version {version}")
    try:
        return ControlType(control_type)
    except ValueError:
        return ControlType.UNKNOWN


ControlValue = (
    EndTxnMarker
    | LeaderChangeMessage
    | SnapshotHeaderRecord
    | SnapshotFooterRecord
    | KRaftVersionRecord
    | VotersRecord
)

_VALUES: dict[ControlType, type[ControlValue]] = {
    ControlType.ABORT: EndTxnMarker,
    ControlType.COMMIT: EndTxnMarker,
    ControlType.LEADER_CHANGE: LeaderChangeMessage,
    ControlType.SNAPSHOT_HEADER: SnapshotHeaderRecord,
    ControlType.SNAPSHOT_FOOTER: SnapshotFooterRecord,
    ControlType.KRAFT_VERSION: KRaftVersionRecord,
    ControlType.KRAFT_VOTERS: VotersRecord,
}
_VERSION = struct.Struct(">h")


def encode_control_value(value: ControlValue, version: int) -> bytes:
    """Returns the value of a control record; the caller sets `value.version`, if there is one.

    Raises:
        LocalProtocolError: as `Message.encode` does.
    """
    body = value.encode(version)
    return _VERSION.pack(version) + body if isinstance(value, EndTxnMarker) else body


def decode_control_value(control_type: ControlType, view: bytes | memoryview) -> ControlValue:
    """Decodes the value of a control record of a known type.

    The version is read from the first two bytes; a later version than ours is read as our highest, as in Kafka.

    Raises:
        RemoteProtocolError: the bytes are malformed, or the type is UNKNOWN.
    """
    cls = _VALUES.get(control_type)
    if cls is None:
        raise RemoteProtocolError("a control record of an unknown type has no value we can read")
    if len(view) < _VERSION.size:
        raise RemoteProtocolError("a control record's value is too short for its version")
    version = min(_VERSION.unpack_from(view, 0)[0], cls.VERSIONS.high)
    return cls.decode(view[2:] if cls is EndTxnMarker else view, version)
