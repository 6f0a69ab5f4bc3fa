"""Records of the coordinators' topics: `__consumer_offsets`, `__transaction_state`, `__share_group_state`.

```
key   := type int16, fields in version 0            value := version int16, fields
```
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.records.registry import COORDINATOR_RECORDS
from trimaran.wire.schema import Message

_PREFIX = struct.Struct(">h")


class CoordinatorRecord(NamedTuple):
    """A record of a coordinator. In a tombstone `value` is None and `value_version` is -1."""

    key: Message
    value: Message | None
    value_version: int


def decode_coordinator_record(
    topic: str, key: bytes | memoryview, value: bytes | memoryview | None
) -> CoordinatorRecord:
    """Decodes a record of one of the topics of `COORDINATOR_RECORDS`.

    Raises:
        RemoteProtocolError: the type or version is unknown, or the bytes are malformed.
    """
    classes = COORDINATOR_RECORDS[topic]
    key_type = _prefix(key)
    if key_type not in classes.keys:
        raise RemoteProtocolError(f"a record of {topic} has the unknown type {key_type}")
    decoded_key = classes.keys[key_type].decode(key[_PREFIX.size :], 0)
    if value is None:
        return CoordinatorRecord(decoded_key, None, -1)
    version = _prefix(value)
    decoded = classes.values[key_type].decode(value[_PREFIX.size :], version)
    return CoordinatorRecord(decoded_key, decoded, version)


def _prefix(view: bytes | memoryview) -> int:
    if len(view) < _PREFIX.size:
        raise RemoteProtocolError("a coordinator's record is too short for its type or version")
    (prefix,) = _PREFIX.unpack_from(view)
    return int(prefix)
