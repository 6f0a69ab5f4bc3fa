"""AddOffsetsToTxn (25): adds the offsets of a group to a transaction (KIP-98).

Versions: 2 PRODUCER_FENCED (KIP-588); 3 flexible; 4 TRANSACTION_ABORTABLE (KIP-890).
"""

from trimaran.wire.codec.declarations import (
    int16,
    int16_producer_epoch,
    int32,
    int64_producer_id,
    string,
)
from trimaran.wire.schema import Message, request, response


@request(key=25, versions="0-4", flexible="3+")
class AddOffsetsToTxnRequest(Message):
    transactional_id: string
    producer_id: int64_producer_id
    producer_epoch: int16_producer_epoch
    group_id: string


@response(key=25, versions="0-4", flexible="3+")
class AddOffsetsToTxnResponse(Message):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
