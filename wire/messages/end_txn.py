"""EndTxn (26): commits or aborts a transaction (KIP-98).

Versions: 2 PRODUCER_FENCED (KIP-588); 3 flexible; 4 TRANSACTION_ABORTABLE; 5 returns the producer's next epoch
(KIP-890).
"""

from trimaran.wire.codec.declarations import (
    boolean,
    field,
    int16,
    int16_producer_epoch,
    int32,
    int64_producer_id,
    string,
)
from trimaran.wire.schema import Message, request, response


@request(key=26, versions="0-5", flexible="3+")
class EndTxnRequest(Message):
    transactional_id: string
    producer_id: int64_producer_id
    producer_epoch: int16_producer_epoch
    committed: boolean


@response(key=26, versions="0-5", flexible="3+")
class EndTxnResponse(Message):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    producer_id: int64_producer_id = field("5+", default=-1, ignorable=True)
    producer_epoch: int16_producer_epoch = field("5+", default=-1, ignorable=True)
