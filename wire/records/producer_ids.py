"""Metadata record of a block of producer ids handed to a broker (KIP-730)."""

from trimaran.wire.codec.declarations import int32_broker_id, int64_broker_epoch, int64_producer_id
from trimaran.wire.identity import BrokerEpoch
from trimaran.wire.schema import Message, record


@record(key=15, versions="0", flexible="0+")
class ProducerIdsRecord(Message):
    broker_id: int32_broker_id
    broker_epoch: int64_broker_epoch = BrokerEpoch(-1)
    next_producer_id: int64_producer_id
