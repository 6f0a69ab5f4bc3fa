"""OffsetCommit (8): stores a group's offsets.

Versions: 0 commits to ZooKeeper, later ones to Kafka; 1 has a time for each offset; 2 to 4 have a retention time for
all of them; 5 drops it; 6 adds leader epochs; 7 static members (KIP-345); 8 flexible; 9 members of the consumer
protocol (KIP-848); 10 names topics by id.
"""

from trimaran.wire.buffers.primitives import NIL_UUID
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


class OffsetCommitRequestPartition(Struct):
    partition_index: int32
    committed_offset: int64_offset
    committed_leader_epoch: int32_leader_epoch = field("6+", default=-1, ignorable=True)
    commit_timestamp: int64 = field("1", default=-1)
    committed_metadata: string | None


class OffsetCommitRequestTopic(Struct):
    name: string = field("0-9", default="", ignorable=True)
    topic_id: uuid = field("10+", default=NIL_UUID, ignorable=True)
    partitions: list[OffsetCommitRequestPartition]


@request(key=8, versions="0-10", flexible="8+")
class OffsetCommitRequest(Message):
    group_id: string
    generation_id_or_member_epoch: int32 = field("1+", default=-1, ignorable=True)
    member_id: string = field("1+", default="", ignorable=True)
    group_instance_id: string | None = field("7+", default=None)
    retention_time_ms: int64 = field("2-4", default=-1, ignorable=True)
    topics: list[OffsetCommitRequestTopic]


class OffsetCommitResponsePartition(Struct):
    partition_index: int32
    error_code: int16 = 0


class OffsetCommitResponseTopic(Struct):
    name: string = field("0-9", default="", ignorable=True)
    topic_id: uuid = field("10+", default=NIL_UUID, ignorable=True)
    partitions: list[OffsetCommitResponsePartition]


@response(key=8, versions="0-10", flexible="8+")
class OffsetCommitResponse(Message):
    throttle_time_ms: int32 = field("3+", default=0, ignorable=True)
    topics: list[OffsetCommitResponseTopic]
