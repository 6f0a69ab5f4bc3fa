"""InitProducerId (22): assigns producer ids and bumps their epochs.

Versions: 2 flexible; 3 the caller's id and epoch (KIP-360); 4 a new error; 5 transactions of
KIP-890; 6 two-phase commit (KIP-939), unstable: Kafka 4.3 does not serve it by default.
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
from trimaran.wire.identity import NO_PRODUCER_ID
from trimaran.wire.schema import Message, request, response


@request(key=22, versions="0-6", flexible="2+")
class InitProducerIdRequest(Message):
    transactional_id: string | None
    transaction_timeout_ms: int32
    producer_id: int64_producer_id = field("3+", default=-1)
    producer_epoch: int16_producer_epoch = field("3+", default=-1)
    enable2_pc: boolean = field("6+", default=False)
    keep_prepared_txn: boolean = field("6+", default=False)


@response(key=22, versions="0-6", flexible="2+")
class InitProducerIdResponse(Message):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    producer_id: int64_producer_id = NO_PRODUCER_ID
    producer_epoch: int16_producer_epoch
    ongoing_txn_producer_id: int64_producer_id = field("6+", default=-1)
    ongoing_txn_producer_epoch: int16_producer_epoch = field("6+", default=-1)
