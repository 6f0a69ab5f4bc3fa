"""OffsetDelete (47): deletes the offsets of a group for topics to which its members do not subscribe (KIP-496)."""

from trimaran.wire.codec.declarations import Struct, int16, int32, string
from trimaran.wire.schema import Message, request, response


class OffsetDeleteRequestPartition(Struct):
    partition_index: int32


class OffsetDeleteRequestTopic(Struct):
    name: string
    partitions: list[OffsetDeleteRequestPartition]


@request(key=47, versions="0")
class OffsetDeleteRequest(Message):
    group_id: string
    topics: list[OffsetDeleteRequestTopic]


class OffsetDeleteResponsePartition(Struct):
    partition_index: int32
    error_code: int16 = 0


class OffsetDeleteResponseTopic(Struct):
    name: string
    partitions: list[OffsetDeleteResponsePartition]


@response(key=47, versions="0")
class OffsetDeleteResponse(Message):
    error_code: int16 = 0
    throttle_time_ms: int32 = 0
    topics: list[OffsetDeleteResponseTopic]
