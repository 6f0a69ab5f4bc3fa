"""ReadShareGroupState (84): a partition leader reads the state of share partitions (KIP-932)."""

from trimaran.wire.codec.declarations import (
    Struct,
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


class PartitionData(Struct):
    partition: int32
    leader_epoch: int32_leader_epoch


class ReadStateData(Struct):
    topic_id: uuid
    partitions: list[PartitionData]


@request(key=84, versions="0", flexible="0+")
class ReadShareGroupStateRequest(Message):
    group_id: string
    topics: list[ReadStateData]


class StateBatch(Struct):
    first_offset: int64_offset
    last_offset: int64_offset
    delivery_state: int8
    delivery_count: int16


class PartitionResult(Struct):
    partition: int32
    error_code: int16 = 0
    error_message: string | None = None
    state_epoch: int32_state_epoch
    start_offset: int64_offset
    state_batches: list[StateBatch]


class ReadStateResult(Struct):
    topic_id: uuid
    partitions: list[PartitionResult]


@response(key=84, versions="0", flexible="0+")
class ReadShareGroupStateResponse(Message):
    results: list[ReadStateResult]
