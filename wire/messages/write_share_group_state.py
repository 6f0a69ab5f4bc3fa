"""WriteShareGroupState (85): a partition leader stores the state of share partitions (KIP-932).

Versions: 1 the number of complete deliveries (KIP-1226).
"""

from trimaran.wire.codec.declarations import (
    Struct,
    field,
    int8,
    int16,
    int32,
    int32_leader_epoch,
    int32_state_epoch,
    int64_offset,
    string,
    uuid,
)
from trimaran.wire.schema import Message, request, response


class StateBatch(Struct):
    first_offset: int64_offset
    last_offset: int64_offset
    delivery_state: int8
    delivery_count: int16


class PartitionData(Struct):
    partition: int32
    state_epoch: int32_state_epoch
    leader_epoch: int32_leader_epoch
    start_offset: int64_offset
    delivery_complete_count: int32 = field("1+", default=-1, ignorable=True)
    state_batches: list[StateBatch]


class WriteStateData(Struct):
    topic_id: uuid
    partitions: list[PartitionData]


@request(key=85, versions="0-1", flexible="0+")
class WriteShareGroupStateRequest(Message):
    group_id: string
    topics: list[WriteStateData]


class PartitionResult(Struct):
    partition: int32
    error_code: int16 = 0
    error_message: string | None = None


class WriteStateResult(Struct):
    topic_id: uuid
    partitions: list[PartitionResult]


@response(key=85, versions="0-1", flexible="0+")
class WriteShareGroupStateResponse(Message):
    results: list[WriteStateResult]
