"""The `.snapshot` file of a log: the state of its producers at an offset.

The file is an int16 version before these fields; the CRC-32C covers what follows it.
"""

from trimaran.wire.codec.declarations import Struct, int16, int32, int64, uint32
from trimaran.wire.schema import Message, message


class ProducerEntry(Struct):
    producer_id: int64
    epoch: int16
    last_sequence: int32
    last_offset: int64
    offset_delta: int32
    timestamp: int64
    coordinator_epoch: int32
    current_txn_first_offset: int64


@message(versions="1")
class ProducerSnapshot(Message):
    crc: uint32
    producer_entries: list[ProducerEntry]
