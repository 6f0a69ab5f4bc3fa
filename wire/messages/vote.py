"""Vote (52): a candidate requests a vote (KIP-595).

Versions: 1 the directory ids of voters (KIP-853); 2 pre-votes (KIP-996).
"""

from trimaran.wire.buffers.primitives import NIL_UUID
from trimaran.wire.codec.declarations import (
    Struct,
    boolean,
    field,
    int16,
    int32,
    int32_leader_epoch,
    int32_node_id,
    int64_offset,
    string,
    uint16,
    uuid,
)
from trimaran.wire.schema import Message, request, response


class VoteRequestPartitionData(Struct):
    partition_index: int32
    replica_epoch: int32_leader_epoch
    replica_id: int32_node_id
    replica_directory_id: uuid = field("1+", default=NIL_UUID, ignorable=True)
    voter_directory_id: uuid = field("1+", default=NIL_UUID, ignorable=True)
    last_offset_epoch: int32_leader_epoch
    last_offset: int64_offset
    pre_vote: boolean = field("2+", default=False)


class VoteRequestTopicData(Struct):
    topic_name: string
    partitions: list[VoteRequestPartitionData]


@request(key=52, versions="0-2", flexible="0+")
class VoteRequest(Message):
    cluster_id: string | None = None
    voter_id: int32_node_id = field("1+", default=-1, ignorable=True)
    topics: list[VoteRequestTopicData]


class VoteResponsePartitionData(Struct):
    partition_index: int32
    error_code: int16 = 0
    leader_id: int32_node_id
    leader_epoch: int32_leader_epoch
    vote_granted: boolean


class VoteResponseTopicData(Struct):
    topic_name: string
    partitions: list[VoteResponsePartitionData]


class NodeEndpoint(Struct):
    node_id: int32_node_id
    host: string
    port: uint16


@response(key=52, versions="0-2", flexible="0+")
class VoteResponse(Message):
    error_code: int16 = 0
    topics: list[VoteResponseTopicData]
    node_endpoints: list[NodeEndpoint] = field("1+", factory=list, tag=0)
