"""Record batches of format v2: their header as a view over received bytes. See `log/batches/records.py` for their
records.

Source: Kafka's `DefaultRecordBatch` (KIP-98, KIP-534 delete horizon).
The formats v0 and v1 are covered only as far as a log needs them, see `old_view`; `log/old_formats/message_sets.py` and
`log/old_formats/old_batches.py` handle their content.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from enum import IntEnum

import crc32c

from trimaran.log.codecs.compression import Compression
from trimaran.wire.errors import ErrorCode, KafkaError, RemoteProtocolError
from trimaran.wire.identity import (
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    LeaderEpoch,
    Offset,
    ProducerEpoch,
    ProducerId,
)

Buffer = bytes | bytearray | memoryview

HEADER = struct.Struct(">qiibIhiqqqhii")  # base offset … record count, as in BatchView's docstring
assert HEADER.size == 61
HEADER_BYTES = HEADER.size
PREFIX_BYTES = 12  # base offset and length, which `length` does not count
CRC = struct.Struct(">I")
CRC_POSITION = 17
CRC_START = 21  # the bytes from the attributes to the end
MAGIC = 2
MAGIC_POSITION = 16  # of all formats
ATTRIBUTES_END = 23
OLD_CRC_START = MAGIC_POSITION  # of v0 and v1

ATTRIBUTES_COMPRESSION = 0x07
ATTRIBUTES_LOG_APPEND_TIME = 0x08
ATTRIBUTES_TRANSACTIONAL = 0x10
ATTRIBUTES_CONTROL = 0x20
ATTRIBUTES_DELETE_HORIZON = 0x40

SEQUENCE_SPACE = 1 << 31  # sequences wrap from 2^31 - 1 to 0

_COMPRESSIONS = tuple(Compression)  # in the order of their ids
_STAMP_TIMESTAMP = struct.Struct(">q")
_STAMP_HEAD = struct.Struct(">qii")  # base offset, length, leader epoch
_STAMP_ATTRIBUTES = struct.Struct(">h")
_ATTRIBUTES_POSITION = 21
_MAX_TIMESTAMP_POSITION = 35


def begins_transactional(records: Buffer) -> bool:
    """Whether the first batch sent by a client is marked as transactional; other batches and fields are not checked."""
    return (
        len(records) >= ATTRIBUTES_END
        and records[MAGIC_POSITION] >= MAGIC
        and bool(records[ATTRIBUTES_END - 1] & ATTRIBUTES_TRANSACTIONAL)
    )


class TimestampType(IntEnum):
    """The clock of the timestamps, bit 3 of the attributes."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


# Constants for operations on every batch: an attribute access on the enum takes ten times as long.
CREATE_TIME = TimestampType.CREATE_TIME
LOG_APPEND_TIME = TimestampType.LOG_APPEND_TIME


class BatchView:
    """A whole batch in memory with unpacked header; `buffer` is exactly its bytes.

    ```
    bytes  field                 in the CRC
    8      base offset           no
    4      length                no of all bytes after it
    4      leader epoch          no
    1      magic                 no    2
    4      CRC-32C               no
    2      attributes            yes
    4      last offset delta     yes
    8      base timestamp        yes   or the delete horizon
    8      max timestamp         yes
    8      producer id           yes   -1 none
    2      producer epoch        yes
    4      base sequence         yes
    4      record count          yes
    …      records               yes   compressed as one block

    attributes, by bit: 0-2 compression, 3 log append time, 4 transactional, 5 control, 6 delete horizon

    record = varint length, int8 attributes (0), varlong timestamp delta, varint offset delta,
             varint key size (-1 null), key, varint value size (-1 null), value,
             varint header count, { varint key size, key, varint value size (-1 null), value }
    ```

    The leader may stamp offset and epoch without a new CRC, because the CRC does not cover the fields before it.
    """

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "buffer",
        "count",
        "crc",
        "last_offset_delta",
        "leader_epoch",
        "magic",
        "max_timestamp",
        "producer_epoch",
        "producer_id",
        "size",
    )

    base_offset: Offset
    leader_epoch: LeaderEpoch
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    base_sequence: int
    count: int

    def __init__(self, buffer: Buffer, position: int = 0) -> None:
        """Unpacks the header at `position` of at least 61 bytes; `buffer` is kept unchanged (see `iter_batches`)."""
        (
            self.base_offset,
            length,
            self.leader_epoch,
            self.magic,
            self.crc,
            self.attributes,
            self.last_offset_delta,
            self.base_timestamp,
            self.max_timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.count,
        ) = HEADER.unpack_from(buffer, position)
        self.size: int = length + PREFIX_BYTES
        self.buffer = buffer

    @property
    def last_offset(self) -> Offset:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> Offset:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def compression(self) -> Compression:
        """Returns the compression. Raises KafkaError UNSUPPORTED_COMPRESSION_TYPE for the ids 5 to 7."""
        try:
            return _COMPRESSIONS[self.attributes & ATTRIBUTES_COMPRESSION]
        except IndexError:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"unknown compression in {self}"
            ) from None

    @property
    def timestamp_type(self) -> TimestampType:
        return TimestampType(bool(self.attributes & ATTRIBUTES_LOG_APPEND_TIME))

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & ATTRIBUTES_TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & ATTRIBUTES_CONTROL)

    @property
    def delete_horizon_ms(self) -> int | None:
        return self.base_timestamp if self.attributes & ATTRIBUTES_DELETE_HORIZON else None

    @property
    def last_sequence(self) -> int:
        """Returns the sequence of the last record; -1 if it has none. Sequences wrap to 0 (KIP-98)."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) % SEQUENCE_SPACE

    def stamp(self, base_offset: Offset, leader_epoch: LeaderEpoch) -> None:
        """Writes base offset and leader epoch into the bytes, which must be writable; the CRC does not cover them."""
        _STAMP_HEAD.pack_into(self.buffer, 0, base_offset, self.size - PREFIX_BYTES, leader_epoch)
        self.base_offset = base_offset
        self.leader_epoch = leader_epoch

    def stamp_append_time(self, now_ms: int) -> None:
        """Sets log append time `now_ms` in the batch, which must be writable, and computes its CRC."""
        self.attributes |= ATTRIBUTES_LOG_APPEND_TIME
        _STAMP_ATTRIBUTES.pack_into(self.buffer, _ATTRIBUTES_POSITION, self.attributes)
        self.stamp_max_timestamp(now_ms)

    def stamp_max_timestamp(self, timestamp_ms: int) -> None:
        """Writes the timestamp into the batch, which must be writable, and computes its CRC."""
        buffer = self.buffer
        self.max_timestamp = timestamp_ms
        _STAMP_TIMESTAMP.pack_into(buffer, _MAX_TIMESTAMP_POSITION, timestamp_ms)
        self.crc = crc32c.crc32c(memoryview(buffer)[CRC_START:])
        CRC.pack_into(buffer, CRC_POSITION, self.crc)

    def __repr__(self) -> str:
        return (
            f"batch [{self.base_offset}, {self.next_offset}) of {self.size} bytes, {self.count} records, "
            f"epoch {self.leader_epoch}, magic {self.magic}"
        )


# Offset, size, CRC-32, magic, attributes; then, in v1, the timestamp.
_OLD_HEAD = struct.Struct(">qiIBB")
_OLD_TIMESTAMP = struct.Struct(">q")
# By magic: the size of a message with null key and value, including its prefix.
OLD_BYTES_MIN = {
    0: 26,
    1: 34,
}


def old_view(buffer: Buffer, position: int) -> BatchView:
    """Returns a message of v0 or v1, plain or a wrapper, as a batch of the log; its first 26 or 34 bytes must be
    present.

    Compression and timestamp type have the same bits as in v2; there is no epoch and no producer. The header of a
    wrapper has only the last offset and the largest timestamp: `base_offset` is the last offset and `count` 1 until
    `old_batches.opened` has read its content.
    """
    view = BatchView.__new__(BatchView)
    view.base_offset, size, view.crc, view.magic, view.attributes = _OLD_HEAD.unpack_from(
        buffer, position
    )
    view.base_timestamp = NO_TIMESTAMP
    if view.magic:
        (view.base_timestamp,) = _OLD_TIMESTAMP.unpack_from(buffer, position + _OLD_HEAD.size)
    view.max_timestamp = view.base_timestamp
    view.attributes &= ATTRIBUTES_COMPRESSION | ATTRIBUTES_LOG_APPEND_TIME * view.magic
    view.leader_epoch = NO_LEADER_EPOCH
    view.producer_epoch, view.base_sequence = NO_PRODUCER_EPOCH, -1
    view.producer_id = NO_PRODUCER_ID
    view.last_offset_delta, view.count = 0, 1
    view.size = size + PREFIX_BYTES
    view.buffer = buffer
    return view


def header_at(buffer: Buffer, position: int) -> BatchView | None:
    """Returns the unchecked header of any format at `position`; None if there are too few bytes."""
    left = len(buffer) - position
    if left > MAGIC_POSITION and buffer[position + MAGIC_POSITION] < MAGIC:
        enough = left >= OLD_BYTES_MIN[buffer[position + MAGIC_POSITION]]
        return old_view(buffer, position) if enough else None
    return BatchView(buffer, position) if left >= HEADER_BYTES else None


def iter_batches(
    view: Buffer, *, allow_partial_tail: bool = False, allow_old: bool = False
) -> Iterator[BatchView]:
    """Yields the consecutive batches in `view`, headers only: CRCs are not checked.

    With `allow_partial_tail` an incomplete last batch ends the iteration (as in Kafka's Fetch responses); with
    `allow_old` messages of v0 and v1 are also batches (`old_view`), as in a log that was begun by an old Kafka version.

    Raises:
        RemoteProtocolError: a size or magic that no batch has, or trailing bytes.
    """
    view = memoryview(view)
    position, end = 0, len(view)
    while position < end:
        batch = header_at(view, position) if allow_old else None
        if batch is None and end - position < HEADER_BYTES:
            if allow_partial_tail:
                return
            raise RemoteProtocolError(f"a batch header needs 61 bytes, {end - position} are left")
        batch = batch or BatchView(view, position)
        check_header(batch, allow_old=allow_old)
        if batch.size > end - position:
            if allow_partial_tail:
                return
            raise RemoteProtocolError(
                f"batch of {batch.size} bytes in the {end - position} that are left"
            )
        batch.buffer = view[position : position + batch.size]
        position += batch.size
        yield batch


def check_header(batch: BatchView, *, allow_old: bool = False) -> None:
    """Raises RemoteProtocolError: size, magic, count or offsets are invalid."""
    if batch.magic != MAGIC and not (allow_old and 0 <= batch.magic < MAGIC):
        raise RemoteProtocolError(f"magic {batch.magic} where 2 is served")
    if batch.size < OLD_BYTES_MIN.get(batch.magic, HEADER_BYTES):
        raise RemoteProtocolError(f"batch of {batch.size} bytes")
    if batch.last_offset_delta < 0 or batch.base_offset < 0 or batch.count < 0:
        raise RemoteProtocolError(f"impossible header: {batch!r}")


def check_batch(batch: BatchView, *, allow_old: bool = False) -> None:
    """Checks size, magic and CRC.

    Raises:
        KafkaError: CORRUPT_MESSAGE: the CRC differs.
        RemoteProtocolError: as `check_header` does.
    """
    check_header(batch, allow_old=allow_old)
    check_crc(batch)


def check_crc(batch: BatchView) -> None:
    """Returns the view of a batch with a valid header. Raises KafkaError CORRUPT_MESSAGE: the CRC differs."""
    if not has_valid_crc(batch):
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"wrong CRC in {batch!r}")


def has_valid_crc(batch: BatchView) -> bool:
    if 0 <= batch.magic < MAGIC:
        return bool(zlib.crc32(memoryview(batch.buffer)[OLD_CRC_START:]) == batch.crc)
    return bool(crc32c.crc32c(memoryview(batch.buffer)[CRC_START:]) == batch.crc)
