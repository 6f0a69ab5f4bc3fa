"""Produce v0 to v2, whose message formats are not served: answers UNSUPPORTED_VERSION (35) per partition.

They must be advertised all the same (KAFKA-18659), so a client may send one. Layouts (all integers big-endian):

    request  := int16 acks, int32 timeout_ms, [topic]          topic := string16 name, [partition]
    partition:= int32 index, int32 size, size bytes
    response := [ string16 name, [ int32 index, int16 error, int64 base_offset, (v2: int64 log_append_time) ] ],
                (v1+: int32 throttle_time_ms)

The request header is version 1: key, version, correlation id, string16 client id. Left out: serving them.
"""

from __future__ import annotations

import struct

from wire.errors import ErrorCode, RemoteProtocolError
from wire.outgoing import Outgoing
from wire.transport.calls import CloseConnection

_HEAD = struct.Struct(">hhi")
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_PARTITION = struct.Struct(">ihq")


class _Reader:
    """Reads forward; whatever is short or negative is the peer's fault."""

    def __init__(self, frame: memoryview) -> None:
        self.frame = frame
        self.position = 0

    def number(self, form: struct.Struct) -> int:
        try:
            (value,) = form.unpack_from(self.frame, self.position)
        except struct.error as error:
            raise RemoteProtocolError(f"an old ProduceRequest is too short: {error}") from error
        self.position += form.size
        return int(value)

    def skip(self, size: int) -> bytes:
        if not 0 <= size <= len(self.frame) - self.position:
            raise RemoteProtocolError(f"an old ProduceRequest has a field of {size} bytes")
        start, self.position = self.position, self.position + size
        return bytes(self.frame[start : start + min(size, 0x7FFF)])

    def count(self, item_bytes_min: int) -> int:
        count = self.number(_INT32)
        if not 0 <= count <= (len(self.frame) - self.position) // item_bytes_min:
            raise RemoteProtocolError(f"an old ProduceRequest has an array of {count}")
        return count


def answer_old_produce(frame: memoryview) -> Outgoing:
    """The whole answer to a whole request frame of version 0, 1 or 2.

    Raises:
        RemoteProtocolError: the request is malformed.
        CloseConnection: acks=0, so no answer may be sent.
    """
    _, version, correlation_id = _HEAD.unpack_from(frame)
    reader = _Reader(frame)
    reader.position = _HEAD.size
    reader.skip(max(reader.number(_INT16), 0))
    acks = reader.number(_INT16)
    reader.number(_INT32)
    out = Outgoing()
    out += _INT32.pack(correlation_id)
    _answer_topics(reader, out, version)
    if version >= 1:
        out += _INT32.pack(0)
    if acks == 0:
        raise CloseConnection(f"ProduceRequest v{version} with acks=0, which is not served")
    return out


def _answer_topics(reader: _Reader, out: Outgoing, version: int) -> None:
    topics = reader.count(item_bytes_min=6)
    out += _INT32.pack(topics)
    for _ in range(topics):
        name = reader.skip(reader.number(_INT16))
        out += _INT16.pack(len(name)) + name
        partitions = reader.count(item_bytes_min=8)
        out += _INT32.pack(partitions)
        for _ in range(partitions):
            index = reader.number(_INT32)
            reader.skip(max(reader.number(_INT32), 0))
            out += _PARTITION.pack(index, ErrorCode.UNSUPPORTED_VERSION, -1)
            if version >= 2:
                out += b"\xff" * 8
