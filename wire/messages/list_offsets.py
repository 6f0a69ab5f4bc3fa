"""ListOffsets (2): finds offsets by timestamp, or the first, the last and other special offsets.

Versions: 0 returns a list of base offsets of segments; 2 adds isolation levels; 4 leader epochs (KIP-320); 6 flexible;
7 the maximal timestamp (KIP-734); 8 and 9 tiered storage (KIP-405, KIP-1005); 10 a timeout for reads from it
(KIP-1075); 11 the first offset not yet uploaded.
"""

from trimaran.wire.codec.declarations import (
    Struct,
    field,
    int8,
    int16,
    int32,
    int32_broker_id,
    int32_leader_epoch,
    int64,
    int64_offset,
    string,
)
from trimaran.wire.schema import Message, request, response


class ListOffsetsPartition(Struct):
    partition_index: int32
    current_leader_epoch: int32_leader_epoch = field("4+", default=-1, ignorable=True)
    timestamp: int64
    max_num_offsets: int32 = field("0", default=1)


class ListOffsetsTopic(Struct):
    name: string
    partitions: list[ListOffsetsPartition]


@request(key=2, versions="0-11", flexible="6+")
class ListOffsetsRequest(Message):
    replica_id: int32_broker_id
    isolation_level: int8 = field("2+", default=0)
    topics: list[ListOffsetsTopic]
    timeout_ms: int32 = field("10+", default=0, ignorable=True)


class ListOffsetsPartitionResponse(Struct):
    partition_index: int32
    error_code: int16 = 0
    old_style_offsets: list[int64_offset] = field("0", factory=list)
    timestamp: int64 = field("1+", default=-1)
    offset: int64_offset = field("1+", default=-1)
    leader_epoch: int32_leader_epoch = field("4+", default=-1)


class ListOffsetsTopicResponse(Struct):
    name: string
    partitions: list[ListOffsetsPartitionResponse]


@response(key=2, versions="0-11", flexible="6+")
class ListOffsetsResponse(Message):
    throttle_time_ms: int32 = field("2+", default=0, ignorable=True)
    topics: list[ListOffsetsTopicResponse]
