"""DescribeShareGroupOffsets (90): the start offsets of share groups in partitions (KIP-932).

Versions: 1 their lag (KIP-1226).
"""

from trimaran.wire.codec.declarations import (
    Struct,
    field,
    int16,
    int32,
    int32_leader_epoch,
    int64,
    int64_offset,
    string,
    uuid,
)
from trimaran.wire.schema import Message, request, response


class DescribeShareGroupOffsetsRequestTopic(Struct):
    topic_name: string
    partitions: list[int32]


class DescribeShareGroupOffsetsRequestGroup(Struct):
    group_id: string
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None


@request(key=90, versions="0-1", flexible="0+")
class DescribeShareGroupOffsetsRequest(Message):
    groups: list[DescribeShareGroupOffsetsRequestGroup]


class DescribeShareGroupOffsetsResponsePartition(Struct):
    partition_index: int32
    start_offset: int64_offset
    leader_epoch: int32_leader_epoch
    lag: int64 = field("1+", default=-1, ignorable=True)
    error_code: int16 = 0
    error_message: string | None = None


class DescribeShareGroupOffsetsResponseTopic(Struct):
    topic_name: string
    topic_id: uuid
    partitions: list[DescribeShareGroupOffsetsResponsePartition]


class DescribeShareGroupOffsetsResponseGroup(Struct):
    group_id: string
    topics: list[DescribeShareGroupOffsetsResponseTopic]
    error_code: int16 = 0
    error_message: string | None = None


@response(key=90, versions="0-1", flexible="0+")
class DescribeShareGroupOffsetsResponse(Message):
    throttle_time_ms: int32 = 0
    groups: list[DescribeShareGroupOffsetsResponseGroup]
