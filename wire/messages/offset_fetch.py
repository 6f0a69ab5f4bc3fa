"""OffsetFetch (9): reads a group's stored offsets.

Versions: 0 reads from ZooKeeper, later ones from Kafka; 2 null means all topics, and a group-level error; 5 leader
epochs; 6 flexible; 7 stable offsets only (KIP-447); 8 several groups in one request (KIP-709); 9 members of the
consumer protocol (KIP-848); 10 names topics by id.
"""

from trimaran.wire.buffers.primitives import NIL_UUID
from trimaran.wire.codec.declarations import (
    Struct,
    boolean,
    field,
    int16,
    int32,
    int32_group_epoch,
    int32_leader_epoch,
    int64_offset,
    string,
    uuid,
)
from trimaran.wire.identity import NO_LEADER_EPOCH
from trimaran.wire.schema import Message, request, response


class OffsetFetchRequestTopic(Struct):
    name: string
    partition_indexes: list[int32]


class OffsetFetchRequestTopics(Struct):
    name: string = field("8-9", default="", ignorable=True)
    topic_id: uuid = field("10+", default=NIL_UUID, ignorable=True)
    partition_indexes: list[int32]


class OffsetFetchRequestGroup(Struct):
    group_id: string
    member_id: string | None = field("9+", default=None, ignorable=True)
    member_epoch: int32_group_epoch = field("9+", default=-1, ignorable=True)
    topics: list[OffsetFetchRequestTopics] | None


@request(key=9, versions="0-10", flexible="6+")
class OffsetFetchRequest(Message):
    group_id: string = field("0-7", default="")
    topics: list[OffsetFetchRequestTopic] | None = field("0-7", factory=list, nullable="2-7")
    groups: list[OffsetFetchRequestGroup] = field("8+", factory=list)
    require_stable: boolean = field("7+", default=False)


class OffsetFetchResponsePartition(Struct):
    partition_index: int32
    committed_offset: int64_offset
    committed_leader_epoch: int32_leader_epoch = field("5-7", default=-1, ignorable=True)
    metadata: string | None
    error_code: int16 = 0


class OffsetFetchResponseTopic(Struct):
    name: string
    partitions: list[OffsetFetchResponsePartition]


class OffsetFetchResponsePartitions(Struct):
    partition_index: int32
    committed_offset: int64_offset
    committed_leader_epoch: int32_leader_epoch = NO_LEADER_EPOCH
    metadata: string | None
    error_code: int16 = 0


class OffsetFetchResponseTopics(Struct):
    name: string = field("8-9", default="", ignorable=True)
    topic_id: uuid = field("10+", default=NIL_UUID, ignorable=True)
    partitions: list[OffsetFetchResponsePartitions]


class OffsetFetchResponseGroup(Struct):
    group_id: string
    topics: list[OffsetFetchResponseTopics]
    error_code: int16 = 0


@response(key=9, versions="0-10", flexible="6+")
class OffsetFetchResponse(Message):
    throttle_time_ms: int32 = field("3+", default=0, ignorable=True)
    topics: list[OffsetFetchResponseTopic] = field("0-7", factory=list)
    error_code: int16 = field("2-7", default=0, ignorable=True)
    groups: list[OffsetFetchResponseGroup] = field("8+", factory=list)
