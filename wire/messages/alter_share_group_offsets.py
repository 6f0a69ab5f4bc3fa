"""AlterShareGroupOffsets (91): sets the start offsets of a share group in partitions (KIP-932)."""

from trimaran.wire.codec.declarations import Struct, int16, int32, int64_offset, string, uuid
from trimaran.wire.schema import Message, request, response


class AlterShareGroupOffsetsRequestPartition(Struct):
    partition_index: int32
    start_offset: int64_offset


class AlterShareGroupOffsetsRequestTopic(Struct):
    topic_name: string
    partitions: list[AlterShareGroupOffsetsRequestPartition]


@request(key=91, versions="0", flexible="0+")
class AlterShareGroupOffsetsRequest(Message):
    group_id: string
    topics: list[AlterShareGroupOffsetsRequestTopic]


class AlterShareGroupOffsetsResponsePartition(Struct):
    partition_index: int32
    error_code: int16 = 0
    error_message: string | None = None


class AlterShareGroupOffsetsResponseTopic(Struct):
    topic_name: string
    topic_id: uuid
    partitions: list[AlterShareGroupOffsetsResponsePartition]


@response(key=91, versions="0", flexible="0+")
class AlterShareGroupOffsetsResponse(Message):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = None
    responses: list[AlterShareGroupOffsetsResponseTopic]
