"""AllocateProducerIds (67): a broker gets a block of producer ids from the controller (KIP-730)."""

from trimaran.wire.codec.declarations import (
    int16,
    int32,
    int32_broker_id,
    int64_broker_epoch,
    int64_producer_id,
)
from trimaran.wire.identity import BrokerEpoch
from trimaran.wire.schema import Message, request, response


@request(key=67, versions="0", flexible="0+")
class AllocateProducerIdsRequest(Message):
    broker_id: int32_broker_id
    broker_epoch: int64_broker_epoch = BrokerEpoch(-1)


@response(key=67, versions="0", flexible="0+")
class AllocateProducerIdsResponse(Message):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    producer_id_start: int64_producer_id
    producer_id_len: int32
