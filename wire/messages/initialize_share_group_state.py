"""InitializeShareGroupState (83): a group coordinator requests the creation of the state of share partitions
(KIP-932).
"""

from trimaran.wire.codec.declarations import (
    Struct,
    int16,
    int32,
    int32_state_epoch,
    int64_offset,
    string,
    uuid,
)
from trimaran.wire.schema import Message, request, response


class PartitionData(Struct):
    partition: int32
    state_epoch: int32_state_epoch
    start_offset: int64_offset


class InitializeStateData(Struct):
    topic_id: uuid
    partitions: list[PartitionData]


@request(key=83, versions="0", flexible="0+")
class InitializeShareGroupStateRequest(Message):
    group_id: string
    topics: list[InitializeStateData]


class PartitionResult(Struct):
    partition: int32
    error_code: int16 = 0
    error_message: string | None = None


class InitializeStateResult(Struct):
    topic_id: uuid
    partitions: list[PartitionResult]


@response(key=83, versions="0", flexible="0+")
class InitializeShareGroupStateResponse(Message):
    results: list[InitializeStateResult]
