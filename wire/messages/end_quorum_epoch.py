"""EndQuorumEpoch (54): a leader resigns and names its preferred successors (KIP-595).

Versions: 1 flexible, directory ids and the leader's endpoints (KIP-853).
"""

from trimaran.wire.codec.declarations import (
    Struct,
    field,
    int16,
    int32,
    int32_leader_epoch,
    int32_node_id,
    string,
    uint16,
    uuid,
)
from trimaran.wire.schema import Message, request, response


class ReplicaInfo(Struct):
    candidate_id: int32_node_id
    candidate_directory_id: uuid


class EndQuorumEpochRequestPartitionData(Struct):
    partition_index: int32
    leader_id: int32_node_id
    leader_epoch: int32_leader_epoch
    preferred_successors: list[int32] = field("0", factory=list, ignorable=True)
    preferred_candidates: list[ReplicaInfo] = field("1+", factory=list, ignorable=True)


class EndQuorumEpochRequestTopicData(Struct):
    topic_name: string
    partitions: list[EndQuorumEpochRequestPartitionData]


class LeaderEndpoint(Struct):
    name: string
    host: string
    port: uint16


@request(key=54, versions="0-1", flexible="1+")
class EndQuorumEpochRequest(Message):
    cluster_id: string | None = None
    topics: list[EndQuorumEpochRequestTopicData]
    leader_endpoints: list[LeaderEndpoint] = field("1+", factory=list, ignorable=True)


class EndQuorumEpochResponsePartitionData(Struct):
    partition_index: int32
    error_code: int16 = 0
    leader_id: int32_node_id
    leader_epoch: int32_leader_epoch


class EndQuorumEpochResponseTopicData(Struct):
    topic_name: string
    partitions: list[EndQuorumEpochResponsePartitionData]


class NodeEndpoint(Struct):
    node_id: int32_node_id
    host: string
    port: uint16


@response(key=54, versions="0-1", flexible="1+")
class EndQuorumEpochResponse(Message):
    error_code: int16 = 0
    topics: list[EndQuorumEpochResponseTopicData]
    node_endpoints: list[NodeEndpoint] = field("1+", factory=list, tag=0)
