"""The frame of records in the metadata log, and the versions that a cluster may write.

    frame: uvarint frame version (1), uvarint type (the class's `KEY`), uvarint version, body

Source: KIP-631 and Kafka's `MetadataRecordSerde`, `MetadataVersion`.
"""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from trimaran.wire.buffers.primitives import read_uvarint, write_uvarint
from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.identity import NO_OFFSET, Offset
from trimaran.wire.records.brokers import BrokerRegistrationChangeRecord, RegisterBrokerRecord
from trimaran.wire.records.registry import METADATA_RECORDS
from trimaran.wire.records.topics import PartitionChangeRecord, PartitionRecord
from trimaran.wire.schema import Message

FRAME_VERSION = 1

# Feature levels of `metadata.version` from which Kafka writes newer record versions.
_MIGRATION = 8  # 3.4-IV0
_DIRECTORIES = 17  # 3.7-IV2
_ELIGIBLE_LEADERS = 23  # 4.0-IV1
_CORDONED_DIRECTORIES = 30  # 4.3-IV0

# In ascending order; the last level that is reached determines the version. Level 0 applies to every metadata version.
_LEVELS: dict[type[Message], tuple[tuple[int, int], ...]] = {
    RegisterBrokerRecord: (
        (0, 1),
        (_MIGRATION, 2),
        (_DIRECTORIES, 3),
        (_CORDONED_DIRECTORIES, 4),
    ),
    PartitionRecord: ((0, 0), (_DIRECTORIES, 1), (_ELIGIBLE_LEADERS, 2)),
    PartitionChangeRecord: ((0, 0), (_DIRECTORIES, 1), (_ELIGIBLE_LEADERS, 2)),
    BrokerRegistrationChangeRecord: ((0, 1), (_DIRECTORIES, 2), (_CORDONED_DIRECTORIES, 3)),
}


class UnknownRecord(NamedTuple):
    """A record of the metadata log with a type, or a version of a known type, of a later Kafka.

    `offset` is -1 if a single value was read.
    """

    type: int
    version: int
    offset: Offset = NO_OFFSET

    @property
    def name(self) -> str:
        """Returns the replacement for a class's name, such as `UNKNOWN_29`."""
        return f"UNKNOWN_{self.type}"

    def __str__(self) -> str:
        return f"type {self.type} version {self.version} at offset {self.offset}"


def metadata_record_version(cls: type[Message], metadata_version: int) -> int:
    """Returns the version of a record that a cluster at this level of `metadata.version` may write.

    Returns: The highest version that every node of that level reads; 0 for records that never changed.
    """
    version = 0
    for level, candidate in _LEVELS.get(cls, ()):
        if metadata_version >= level:
            version = candidate
    return version


def encode_metadata_record(record: Message, version: int) -> bytes:
    """Encodes the value of a log record: frame and body.

    Raises:
        LocalProtocolError: as `Message.encode` does.
    """
    return _frame(record.KEY, version) + record.encode(version)


@cache
def _frame(key: int, version: int) -> bytes:
    """Returns the bytes before the body; they are cached, because there are few variants."""
    out = bytearray()
    for number in (FRAME_VERSION, key, version):
        write_uvarint(out, number)
    return bytes(out)


def decode_metadata_record(view: bytes | memoryview) -> Message:
    """Decodes the record in the value of a log record.

    Raises:
        RemoteProtocolError: the frame version, type or version is unknown, or the body is malformed.
    """
    key, version, pos = _read_frame(view)
    return metadata_decoder(key, version)(view[pos:])


def read_metadata_record(
    view: bytes | memoryview, offset: Offset = NO_OFFSET
) -> Message | UnknownRecord:
    """Decodes a record as `decode_metadata_record` does, but returns an UnknownRecord for an unknown type or version.

    Raises:
        RemoteProtocolError: the frame version is unknown, or the body is malformed.
    """
    key, version, pos = _read_frame(view)
    try:
        decode = metadata_decoder(key, version)
    except RemoteProtocolError:
        return UnknownRecord(key, version, offset)
    return decode(view[pos:])


def unknown_record(view: bytes | memoryview, offset: Offset = NO_OFFSET) -> UnknownRecord | None:
    """Returns the result of `read_metadata_record` for a record of a later Kafka, None for all other records; the body
    is not read.

    Raises:
        RemoteProtocolError: the frame version is unknown, or the frame is malformed.
    """
    key, version, _ = _read_frame(view)
    cls = METADATA_RECORDS.get(key)
    is_known = cls is not None and version in cls.VERSIONS
    return None if is_known else UnknownRecord(key, version, offset)


@cache
def metadata_decoder(key: int, version: int) -> Callable[[bytes | memoryview], Message]:
    """Returns the decoder of bodies of a type and version, for callers that read frames themselves. Raises
    RemoteProtocolError.
    """
    # Cached, because there are few decoders; errors are not cached.
    cls = METADATA_RECORDS.get(key)
    if cls is None:
        raise RemoteProtocolError(f"a metadata record has the unknown type {key}")
    return cls.decoder(version)


def _read_frame(view: bytes | memoryview) -> tuple[int, int, int]:
    """Returns type, version, and the start of the body."""
    if len(view) > 2 and view[0] == FRAME_VERSION and view[1] < 0x80 and view[2] < 0x80:
        return view[1], view[2], 3  # all existing records
    frame_version, pos = read_uvarint(view, 0)
    if frame_version != FRAME_VERSION:
        raise RemoteProtocolError(f"a metadata record has frame version {frame_version}")
    key, pos = read_uvarint(view, pos)
    version, pos = read_uvarint(view, pos)
    return key, version, pos
