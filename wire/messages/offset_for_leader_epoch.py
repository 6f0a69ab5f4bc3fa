"""OffsetForLeaderEpoch (23): returns the end offset of a leader epoch, by which followers truncate diverging logs.

Versions: 1 returns the epoch found; 2 the caller's leader epoch (KIP-320); 3 its replica id; 4 flexible.
"""

from trimaran.wire.codec.declarations import (
    Struct,
    field,
    int16,
    int32,
    int32_broker_id,
    int32_leader_epoch,
    int64_offset,
    string,
)
from trimaran.wire.identity import NO_OFFSET
from trimaran.wire.schema import Message, request, response


class OffsetForLeaderPartition(Struct):
    partition: int32
    current_leader_epoch: int32_leader_epoch = field("2+", default=-1, ignorable=True)
    leader_epoch: int32_leader_epoch


class OffsetForLeaderTopic(Struct):
    topic: string
    partitions: list[OffsetForLeaderPartition]


@request(key=23, versions="0-4", flexible="4+")
class OffsetForLeaderEpochRequest(Message):
    replica_id: int32_broker_id = field("3+", default=-2, ignorable=True)
    topics: list[OffsetForLeaderTopic]


class EpochEndOffset(Struct):
    error_code: int16 = 0
    partition: int32
    leader_epoch: int32_leader_epoch = field("1+", default=-1, ignorable=True)
    end_offset: int64_offset = NO_OFFSET


class OffsetForLeaderTopicResult(Struct):
    topic: string
    partitions: list[EpochEndOffset]


@response(key=23, versions="0-4", flexible="4+")
class OffsetForLeaderEpochResponse(Message):
    throttle_time_ms: int32 = field("2+", default=0, ignorable=True)
    topics: list[OffsetForLeaderTopicResult]
