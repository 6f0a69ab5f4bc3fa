"""Message sets: the record formats v0 (Kafka 0.8, 0.9) and v1 (0.10), read and written.

```
message set := { offset int64, size int32, message }*      size counts the message; the last one may be incomplete
message v0  := crc uint32, magic int8 (0), attributes int8,                  key, value
message v1  := crc uint32, magic int8 (1), attributes int8, timestamp int64, key, value
key, value  := size int32 (below 0: null), bytes

crc: CRC-32 (that of zlib) from the magic to the end
attributes, by bit: 0-2 compression (0 none, 1 gzip, 2 snappy, 3 lz4; zstd came with v2), 3 log append time (v1 only)
```

A compressed message (the wrapper) has a null key, and as its value the compressed bytes of a message set. In v0 the
inner offsets are absolute. In v1 they count from the first inner message, and the wrapper has the offset of the last
one; a wrapper of offset 0 comes from a producer that left the offsets to the broker. Inner messages have their own
timestamps under create time, and that of the wrapper under log append time. Wrappers are not nested: a compressed inner
message is an error, so there is only one decompression.

Source: Kafka's `LegacyRecord`, `AbstractLegacyRecordBatch`, `MemoryRecordsBuilder`; KIP-31, KIP-32, KAFKA-3160 (lz4 in
v0). See `log/old_formats/up_conversion.py` for the conversion of produced sets.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator

from trimaran.log.batches.batch import (
    ATTRIBUTES_COMPRESSION,
    ATTRIBUTES_LOG_APPEND_TIME,
    Buffer,
    TimestampType,
)
from trimaran.log.batches.records import Record
from trimaran.log.codecs.compression import Compression, OutputTooLarge, compress, decompress
from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.identity import NO_OFFSET, NO_TIMESTAMP, Offset

V0, V1 = 0, 1
_PREFIX = struct.Struct(">qi")
_HEAD = {V0: struct.Struct(">IBB"), V1: struct.Struct(">IBBq")}
_SIZE = struct.Struct(">i")
_CRC = struct.Struct(">I")
PREFIX_BYTES = _PREFIX.size
MAGIC_POSITION = 16
MESSAGE_BYTES_MIN = 14  # v0 with null key and value; Kafka checks this first for any magic
CRC_BYTES = _CRC.size

SET_BYTES_MAX = 128 << 20  # the most decompressed bytes of a set: more than the largest frame
# The maximum number of messages of a set, compressed or not: a wrapper of 1 MB can contain a thousand times as much,
# and each message becomes an object.
MESSAGES_MAX = 1_000_000


class LegacyRecord:
    """A message of a set, plain or a wrapper; `key` and `value` are views into the received bytes."""

    __slots__ = ("attributes", "body", "key", "magic", "offset", "timestamp_ms", "value")

    def __init__(self, offset: Offset, body: memoryview) -> None:
        """Unpacks the message in `body`; raises RemoteProtocolError."""
        self.offset = offset
        self.body = body
        self.timestamp_ms = NO_TIMESTAMP
        self.magic = body[CRC_BYTES]
        head = _HEAD.get(self.magic)
        if head is None or len(body) < head.size + 2 * _SIZE.size:
            raise RemoteProtocolError(f"message of magic {self.magic} in {len(body)} bytes")
        self.attributes: int
        if self.magic == V0:
            _, _, self.attributes = head.unpack_from(body)
        else:
            _, _, self.attributes, self.timestamp_ms = head.unpack_from(body)
        self.key, position = _sized(body, head.size)
        self.value, _ = _sized(body, position)

    @property
    def size(self) -> int:
        """Returns the size in the set, including the fields for offset and size."""
        return PREFIX_BYTES + len(self.body)

    @property
    def compression(self) -> Compression:
        """Returns the compression. Raises RemoteProtocolError for the ids 5 to 7."""
        try:
            return Compression(self.attributes & ATTRIBUTES_COMPRESSION)
        except ValueError:
            raise RemoteProtocolError(f"unknown compression in {self}") from None

    @property
    def is_compressed(self) -> bool:
        return bool(self.attributes & ATTRIBUTES_COMPRESSION)

    @property
    def timestamp_type(self) -> TimestampType | None:
        """Returns the timestamp type; None in v0, which has no timestamps."""
        if self.magic == V0:
            return None
        return TimestampType(bool(self.attributes & ATTRIBUTES_LOG_APPEND_TIME))

    def has_valid_crc(self) -> bool:
        (crc,) = _CRC.unpack_from(self.body)
        return bool(zlib.crc32(self.body[CRC_BYTES:]) == crc)

    def record(self) -> Record:
        """Returns a plain message as a record, with copies of key and value."""
        key, value = self.key, self.value
        return Record(
            self.offset,
            self.timestamp_ms,
            None if key is None else bytes(key),
            None if value is None else bytes(value),
            (),
        )

    def __repr__(self) -> str:
        return f"message at {self.offset} of {self.size} bytes, magic {self.magic}, attributes {self.attributes}"


def _sized(body: memoryview, position: int) -> tuple[memoryview | None, int]:
    if position + _SIZE.size > len(body):
        raise RemoteProtocolError("a message's key takes all of it")
    (size,) = _SIZE.unpack_from(body, position)
    position += _SIZE.size
    if size < 0:
        return None, position
    if size > len(body) - position:
        raise RemoteProtocolError(f"{size} bytes in a message that has {len(body) - position} left")
    return body[position : position + size], position + size


def iter_messages(view: Buffer) -> Iterator[LegacyRecord]:
    """Yields the consecutive messages in `view`, without opening wrappers; an incomplete one at the end is ignored, as
    in Kafka.

    CRCs are not checked.

    Raises:
        RemoteProtocolError: a size, a magic or fields that no message of v0 or v1 has.
    """
    view = memoryview(view)
    position, end = 0, len(view)
    while end - position >= PREFIX_BYTES:
        offset, size = _PREFIX.unpack_from(view, position)
        if size < MESSAGE_BYTES_MIN:
            raise RemoteProtocolError(f"message of {size} bytes")
        position += PREFIX_BYTES
        if size > end - position:
            return
        yield LegacyRecord(offset, view[position : position + size])
        position += size


def inner_messages(
    wrapper: LegacyRecord, limit_bytes: int = SET_BYTES_MAX
) -> Iterator[LegacyRecord]:
    """Yields the messages in a wrapper, with absolute offsets and the effective timestamps.

    They are yielded one by one, because the garbage collector would scan a list of a million objects repeatedly.

    Raises:
        RemoteProtocolError: damaged, nested, empty, more than `limit_bytes` or `MESSAGES_MAX` (`OutputTooLarge`).
    """
    if wrapper.value is None or wrapper.compression is Compression.ZSTD:
        raise RemoteProtocolError(f"no messages in {wrapper}")
    data = bytes(
        decompress(
            wrapper.compression,
            wrapper.value,
            limit_bytes,
            magic=wrapper.magic,
            may_be_followed=True,
        )
    )
    base = _base(wrapper, data)
    append_time = wrapper.timestamp_type is TimestampType.LOG_APPEND_TIME
    for message in iter_messages(data):
        if message.is_compressed:
            raise RemoteProtocolError(f"{message} in {wrapper} is compressed itself")
        if append_time and message.magic == V1:
            message.timestamp_ms = wrapper.timestamp_ms
        message.offset += base
        yield message


def _base(wrapper: LegacyRecord, data: bytes) -> int:
    """Returns the number to add to the inner offsets."""
    count, last = _count_and_last(data)
    if not count:
        raise RemoteProtocolError(f"no messages in {wrapper}")
    if count > MESSAGES_MAX:
        raise OutputTooLarge(f"more than {MESSAGES_MAX} messages in {wrapper}")
    # Some librdkafka versions produce wrappers of offset 0, with absolute inner offsets.
    if wrapper.magic == V0 or wrapper.offset == 0:
        return 0
    if wrapper.offset < last:
        raise RemoteProtocolError(f"{wrapper} is before its last inner message, at {last}")
    return wrapper.offset - last


def _count_and_last(data: bytes) -> tuple[int, Offset]:
    """Counts the whole messages in a set, by their prefixes only."""
    count, last, position, end = 0, NO_OFFSET, 0, len(data)
    while end - position >= PREFIX_BYTES:
        offset, size = _PREFIX.unpack_from(data, position)
        position += PREFIX_BYTES + size
        if size < MESSAGE_BYTES_MIN:
            raise RemoteProtocolError(f"message of {size} bytes")
        if position > end:
            break
        count, last = count + 1, offset
    return count, last


def decode_message_set(view: Buffer, limit_bytes: int = SET_BYTES_MAX) -> list[Record]:
    """Returns all records of a set, including those in wrappers; checks every CRC. An incomplete message at the end is
    ignored.

    Raises:
        RemoteProtocolError: the set is malformed, has a wrong CRC, or exceeds `limit_bytes` when decompressed.
    """
    records: list[Record] = []
    for outer in iter_messages(view):
        _check_crc(outer)
        if not outer.is_compressed:
            records.append(outer.record())
            continue
        opened = 0
        for message in inner_messages(outer, limit_bytes):
            _check_crc(message)
            opened += message.size
            records.append(message.record())
        limit_bytes -= opened
    return records


def _check_crc(message: LegacyRecord) -> None:
    if not message.has_valid_crc():
        raise RemoteProtocolError(f"wrong CRC in {message}")


def build_message_set(
    records: Iterable[Record],
    *,
    magic: int,
    compression: Compression = Compression.NONE,
    append_time_ms: int | None = None,
) -> bytes:
    """Builds the message set of v0 or v1 from records in ascending order of offsets, empty if there are none; headers
    are lost.

    With `append_time_ms` (v1 only) all of them have that log append time; if compressed, they are in one wrapper.
    """
    assert compression is not Compression.ZSTD, "zstd came with v2"
    assert magic in _HEAD
    append_time = append_time_ms is not None and magic == V1
    attributes = ATTRIBUTES_LOG_APPEND_TIME * append_time
    out = bytearray()
    base = last = -1
    timestamp = NO_TIMESTAMP
    relative = magic == V1 and compression is not Compression.NONE
    for record in records:
        last = record.offset
        if base < 0:
            base = last if relative else 0
        own = record.timestamp_ms if append_time_ms is None else append_time_ms
        timestamp = max(timestamp, own)
        _write_message(out, last - base, magic, attributes, own, record.key, record.value)
    if compression is Compression.NONE or last < 0:
        return bytes(out)
    packed = compress(compression, out, magic=magic)
    wrapper = bytearray()
    _write_message(wrapper, Offset(last), magic, attributes | compression, timestamp, None, packed)
    return bytes(wrapper)


def _write_message(
    out: bytearray,
    offset: Offset,
    magic: int,
    attributes: int,
    timestamp_ms: int,
    key: bytes | None,
    value: bytes | None,
) -> None:
    head = _HEAD[magic]
    if magic == V0:
        body = bytearray(head.pack(0, magic, attributes))
    else:
        body = bytearray(head.pack(0, magic, attributes, timestamp_ms))
    for part in (key, value):
        if part is None:
            body += b"\xff\xff\xff\xff"
        else:
            body += _SIZE.pack(len(part))
            body += part
    _CRC.pack_into(body, 0, zlib.crc32(memoryview(body)[CRC_BYTES:]))
    out += _PREFIX.pack(offset, len(body))
    out += body
