"""BeginQuorumEpoch (53): a new leader announces itself to voters (KIP-595).

Versions: 1 flexible, directory ids and the leader's endpoints (KIP-853).
"""

from trimaran.wire.buffers.primitives import NIL_UUID
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


class BeginQuorumEpochRequestPartitionData(Struct):
    partition_index: int32
    voter_directory_id: uuid = field("1+", default=NIL_UUID, ignorable=True)
    leader_id: int32_node_id
    leader_epoch: int32_leader_epoch


class BeginQuorumEpochRequestTopicData(Struct):
    topic_name: string
    partitions: list[BeginQuorumEpochRequestPartitionData]


class LeaderEndpoint(Struct):
    name: string
    host: string
    port: uint16


@request(key=53, versions="0-1", flexible="1+")
class BeginQuorumEpochRequest(Message):
    cluster_id: string | None = None
    voter_id: int32_node_id = field("1+", default=-1, ignorable=True)
    topics: list[BeginQuorumEpochRequestTopicData]
    leader_endpoints: list[LeaderEndpoint] = field("1+", factory=list, ignorable=True)


class BeginQuorumEpochResponsePartitionData(Struct):
    partition_index: int32
    error_code: int16 = 0
    leader_id: int32_node_id
    leader_epoch: int32_leader_epoch


class BeginQuorumEpochResponseTopicData(Struct):
    topic_name: string
    partitions: list[BeginQuorumEpochResponsePartitionData]


class NodeEndpoint(Struct):
    node_id: int32_node_id
    host: string
    port: uint16


@response(key=53, versions="0-1", flexible="1+")
class BeginQuorumEpochResponse(Message):
    error_code: int16 = 0
    topics: list[BeginQuorumEpochResponseTopicData]
    node_endpoints: list[NodeEndpoint] = field("1+", factory=list, tag=0)
