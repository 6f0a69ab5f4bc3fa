"""DeleteShareGroupState (86): a group coordinator requests the deletion of the state of share partitions (KIP-932)."""

from trimaran.wire.codec.declarations import Struct, int16, int32, string, uuid
from trimaran.wire.schema import Message, request, response


class PartitionData(Struct):
    partition: int32


class DeleteStateData(Struct):
    topic_id: uuid
    partitions: list[PartitionData]


@request(key=86, versions="0", flexible="0+")
class DeleteShareGroupStateRequest(Message):
    group_id: string
    topics: list[DeleteStateData]


class PartitionResult(Struct):
    partition: int32
    error_code: int16 = 0
    error_message: string | None = None


class DeleteStateResult(Struct):
    topic_id: uuid
    partitions: list[PartitionResult]


@response(key=86, versions="0", flexible="0+")
class DeleteShareGroupStateResponse(Message):
    results: list[DeleteStateResult]
