"""The `.snapshot` file of a log: the state of its producers at an offset.

The file is an int16 version before these fields; the CRC-32C covers the bytes after it.
"""

from trimaran.wire.codec.declarations import (
    Struct,
    int16_producer_epoch,
    int32,
    int32_coordinator_epoch,
    int64,
    int64_offset,
    int64_producer_id,
    uint32,
)
from trimaran.wire.schema import Message, message


class ProducerEntry(Struct):
    producer_id: int64_producer_id
    epoch: int16_producer_epoch
    last_sequence: int32
    last_offset: int64_offset
    offset_delta: int32
    timestamp: int64
    coordinator_epoch: int32_coordinator_epoch
    current_txn_first_offset: int64_offset


@message(versions="1")
class ProducerSnapshot(Message):
    crc: uint32
    producer_entries: list[ProducerEntry]
