"""Control records: what the log says about itself (transaction ends, Raft leaders, snapshots).

A control record's key is int16 version and int16 type; its value is one of the messages below,
whose own version comes first as an ordinary field. An EndTxnMarker has its int16 version before it.
"""

import struct
from enum import IntEnum

from wire.errors import RemoteProtocolError
from wire.primitives import NIL_UUID
from wire.schema import Message, Struct, field, int16, int32, int64, message, string, uint16, uuid


@message(versions="0")
class EndTxnMarker(Message):
    coordinator_epoch: int32


class LeaderChangeMessageVoter(Struct):
    voter_id: int32
    voter_directory_id: uuid = field("1+", default=NIL_UUID)


@message(versions="0-1", flexible="0+")
class LeaderChangeMessage(Message):
    version: int16
    leader_id: int32
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
    voter_id: int32
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
    """The key of a control record."""
    return _KEY.pack(_KEY_VERSION, control_type)


def decode_control_key(key: bytes | memoryview) -> ControlType:
    """The type in a control record's key; UNKNOWN for one of a later Kafka, which is skipped.

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
