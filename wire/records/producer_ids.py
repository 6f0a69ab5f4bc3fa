"""Metadata record of a block of producer ids handed to a broker (KIP-730)."""

from trimaran.wire.codec.declarations import int32, int64
from trimaran.wire.schema import Message, record


@record(key=15, versions="0", flexible="0+")
class ProducerIdsRecord(Message):
    broker_id: int32
    broker_epoch: int64 = -1
    next_producer_id: int64
