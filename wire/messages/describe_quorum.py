"""DescribeQuorum (55): leader, epoch and progress of a Raft quorum's replicas (KIP-595).

Versions: 1 times of the last fetch and catch-up (KIP-836); 2 error messages, directory ids and
endpoints (KIP-853).
"""

from trimaran.wire.buffers.primitives import NIL_UUID
from trimaran.wire.codec.declarations import (
    Struct,
    field,
    int16,
    int32,
    int32_leader_epoch,
    int32_node_id,
    int64,
    int64_offset,
    string,
    uint16,
    uuid,
)
from trimaran.wire.schema import Message, request, response


class DescribeQuorumRequestPartitionData(Struct):
    partition_index: int32


class DescribeQuorumRequestTopicData(Struct):
    topic_name: string
    partitions: list[DescribeQuorumRequestPartitionData]


@request(key=55, versions="0-2", flexible="0+")
class DescribeQuorumRequest(Message):
    topics: list[DescribeQuorumRequestTopicData]


class ReplicaState(Struct):
    replica_id: int32_node_id
    replica_directory_id: uuid = field("2+", default=NIL_UUID)
    log_end_offset: int64_offset
    last_fetch_timestamp: int64 = field("1+", default=-1, ignorable=True)
    last_caught_up_timestamp: int64 = field("1+", default=-1, ignorable=True)


class DescribeQuorumResponsePartitionData(Struct):
    partition_index: int32
    error_code: int16 = 0
    error_message: string | None = field("2+", default="", ignorable=True)
    leader_id: int32_node_id
    leader_epoch: int32_leader_epoch
    high_watermark: int64_offset
    current_voters: list[ReplicaState]
    observers: list[ReplicaState]


class DescribeQuorumResponseTopicData(Struct):
    topic_name: string
    partitions: list[DescribeQuorumResponsePartitionData]


class Listener(Struct):
    name: string
    host: string
    port: uint16


class Node(Struct):
    node_id: int32_node_id
    listeners: list[Listener]


@response(key=55, versions="0-2", flexible="0+")
class DescribeQuorumResponse(Message):
    error_code: int16 = 0
    error_message: string | None = field("2+", default="", ignorable=True)
    topics: list[DescribeQuorumResponseTopicData]
    nodes: list[Node] = field("2+", factory=list)
