"""ReadShareGroupState (84): a partition leader reads the state of share partitions (KIP-932)."""

from trimaran.wire.codec.declarations import Struct, int8, int16, int32, int64, string, uuid
from trimaran.wire.schema import Message, request, response


class PartitionData(Struct):
    partition: int32
    leader_epoch: int32


class ReadStateData(Struct):
    topic_id: uuid
    partitions: list[PartitionData]


@request(key=84, versions="0", flexible="0+")
class ReadShareGroupStateRequest(Message):
    group_id: string
    topics: list[ReadStateData]


class StateBatch(Struct):
    first_offset: int64
    last_offset: int64
    delivery_state: int8
    delivery_count: int16


class PartitionResult(Struct):
    partition: int32
    error_code: int16 = 0
    error_message: string | None = None
    state_epoch: int32
    start_offset: int64
    state_batches: list[StateBatch]


class ReadStateResult(Struct):
    topic_id: uuid
    partitions: list[PartitionResult]


@response(key=84, versions="0", flexible="0+")
class ReadShareGroupStateResponse(Message):
    results: list[ReadStateResult]
