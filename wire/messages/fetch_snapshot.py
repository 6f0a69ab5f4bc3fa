"""FetchSnapshot (59): reads a piece of a metadata snapshot (KIP-630).

The records are a byte range of the file, which may begin and end inside a batch.
Versions: 1 the replica's directory and endpoints (KIP-853).
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
    int64_position,
    record_batches,
    string,
    uint16,
    uuid,
)
from trimaran.wire.identity import LeaderEpoch, NodeId
from trimaran.wire.schema import Message, request, response


class FetchSnapshotRequestSnapshotId(Struct):
    end_offset: int64_offset
    epoch: int32_leader_epoch


class FetchSnapshotRequestPartitionSnapshot(Struct):
    partition: int32
    current_leader_epoch: int32_leader_epoch
    snapshot_id: FetchSnapshotRequestSnapshotId
    position: int64_position
    replica_directory_id: uuid = field("1+", default=NIL_UUID, tag=0, ignorable=True)


class FetchSnapshotRequestTopicSnapshot(Struct):
    name: string
    partitions: list[FetchSnapshotRequestPartitionSnapshot]


@request(key=59, versions="0-1", flexible="0+")
class FetchSnapshotRequest(Message):
    cluster_id: string | None = field(default=None, tag=0)
    replica_id: int32_node_id = NodeId(-1)
    max_bytes: int32 = 0x7FFFFFFF
    topics: list[FetchSnapshotRequestTopicSnapshot]


class FetchSnapshotResponseSnapshotId(Struct):
    end_offset: int64_offset
    epoch: int32_leader_epoch


class LeaderIdAndEpoch(Struct):
    leader_id: int32_node_id = NodeId(0)
    leader_epoch: int32_leader_epoch = LeaderEpoch(0)


class FetchSnapshotResponsePartitionSnapshot(Struct):
    index: int32
    error_code: int16 = 0
    snapshot_id: FetchSnapshotResponseSnapshotId
    current_leader: LeaderIdAndEpoch = field(factory=LeaderIdAndEpoch, tag=0)
    size: int64
    position: int64_position
    unaligned_records: record_batches


class FetchSnapshotResponseTopicSnapshot(Struct):
    name: string
    partitions: list[FetchSnapshotResponsePartitionSnapshot]


class NodeEndpoint(Struct):
    node_id: int32_node_id
    host: string
    port: uint16


@response(key=59, versions="0-1", flexible="0+")
class FetchSnapshotResponse(Message):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    topics: list[FetchSnapshotResponseTopicSnapshot]
    node_endpoints: list[NodeEndpoint] = field("1+", factory=list, tag=0)
