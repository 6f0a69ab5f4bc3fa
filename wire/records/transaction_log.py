"""Records of `__transaction_state`: the state of a transactional id in its coordinator.

Key and value are each preceded by their int16 version.
"""

from trimaran.wire.codec.declarations import (
    Struct,
    field,
    int8,
    int16,
    int16_producer_epoch,
    int32,
    int64,
    int64_producer_id,
    string,
)
from trimaran.wire.schema import Message, message


@message(key=0, versions="0")
class TransactionLogKey(Message):
    transactional_id: string


class PartitionsSchema(Struct):
    topic: string
    partition_ids: list[int32]


@message(key=0, versions="0-1", flexible="1+")
class TransactionLogValue(Message):
    producer_id: int64_producer_id
    previous_producer_id: int64_producer_id = field("1+", default=-1, tag=0)
    next_producer_id: int64_producer_id = field("1+", default=-1, tag=1)
    producer_epoch: int16_producer_epoch
    next_producer_epoch: int16_producer_epoch = field("1+", default=-1, tag=3)
    transaction_timeout_ms: int32
    transaction_status: int8
    transaction_partitions: list[PartitionsSchema] | None
    transaction_last_update_timestamp_ms: int64
    transaction_start_timestamp_ms: int64
    client_transaction_version: int16 = field("1+", default=0, tag=2)
