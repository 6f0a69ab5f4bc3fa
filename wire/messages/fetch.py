"""Fetch (1): reads record batches; used by consumers to read, and by followers and observers to replicate.

Versions: 0 and 1 return message sets of v0, 2 and 3 of v1; 3 adds a size limit of the response (KIP-74); 4 isolation
levels (KIP-98); 7 adds fetch sessions (KIP-227); 9 the caller's leader epoch (KIP-320); 11 racks
(KIP-392); 12 flexible, divergence of the last fetched epoch (KIP-595); 13 names topics by id; 15
the replica's epoch (KIP-903); 16 endpoints of new leaders (KIP-951); 17 the replica's directory
(KIP-853); 18 the replica's high watermark (KIP-1166).
"""

from trimaran.wire.buffers.primitives import NIL_UUID
from trimaran.wire.codec.declarations import (
    Struct,
    field,
    int8,
    int16,
    int32,
    int32_leader_epoch,
    int32_node_id,
    int32_session_epoch,
    int64_broker_epoch,
    int64_offset,
    int64_producer_id,
    record_batches,
    string,
    uuid,
)
from trimaran.wire.identity import NO_BROKER_EPOCH, NO_LEADER_EPOCH, NO_NODE, NO_OFFSET
from trimaran.wire.schema import Message, request, response


class ReplicaState(Struct):
    replica_id: int32_node_id = NO_NODE
    replica_epoch: int64_broker_epoch = NO_BROKER_EPOCH


class FetchPartition(Struct):
    partition: int32
    current_leader_epoch: int32_leader_epoch = field("9+", default=-1, ignorable=True)
    fetch_offset: int64_offset
    last_fetched_epoch: int32_leader_epoch = field("12+", default=-1)
    log_start_offset: int64_offset = field("5+", default=-1, ignorable=True)
    partition_max_bytes: int32
    replica_directory_id: uuid = field("17+", default=NIL_UUID, tag=0, ignorable=True)
    high_watermark: int64_offset = field("18+", default=0x7FFFFFFFFFFFFFFF, tag=1, ignorable=True)


class FetchTopic(Struct):
    topic: string = field("0-12", default="", ignorable=True)
    topic_id: uuid = field("13+", default=NIL_UUID, ignorable=True)
    partitions: list[FetchPartition]


class ForgottenTopic(Struct):
    topic: string = field("7-12", default="", ignorable=True)
    topic_id: uuid = field("13+", default=NIL_UUID, ignorable=True)
    partitions: list[int32]


@request(key=1, versions="0-18", flexible="12+")
class FetchRequest(Message):
    cluster_id: string | None = field("12+", default=None, tag=0, ignorable=True)
    replica_id: int32_node_id = field("0-14", default=-1)
    replica_state: ReplicaState = field("15+", factory=ReplicaState, tag=1)
    max_wait_ms: int32
    min_bytes: int32
    max_bytes: int32 = field("3+", default=0x7FFFFFFF, ignorable=True)
    isolation_level: int8 = field("4+", default=0, ignorable=True)
    session_id: int32 = field("7+", default=0, ignorable=True)
    session_epoch: int32_session_epoch = field("7+", default=-1, ignorable=True)
    topics: list[FetchTopic]
    forgotten_topics_data: list[ForgottenTopic] = field("7+", factory=list)
    rack_id: string = field("11+", default="", ignorable=True)


class EpochEndOffset(Struct):
    epoch: int32_leader_epoch = NO_LEADER_EPOCH
    end_offset: int64_offset = NO_OFFSET


class LeaderIdAndEpoch(Struct):
    leader_id: int32_node_id = NO_NODE
    leader_epoch: int32_leader_epoch = NO_LEADER_EPOCH


class SnapshotId(Struct):
    end_offset: int64_offset = NO_OFFSET
    epoch: int32_leader_epoch = NO_LEADER_EPOCH


class AbortedTransaction(Struct):
    producer_id: int64_producer_id
    first_offset: int64_offset


class PartitionData(Struct):
    partition_index: int32
    error_code: int16 = 0
    high_watermark: int64_offset
    last_stable_offset: int64_offset = field("4+", default=-1, ignorable=True)
    log_start_offset: int64_offset = field("5+", default=-1, ignorable=True)
    diverging_epoch: EpochEndOffset = field("12+", factory=EpochEndOffset, tag=0)
    current_leader: LeaderIdAndEpoch = field("12+", factory=LeaderIdAndEpoch, tag=1)
    snapshot_id: SnapshotId = field("12+", factory=SnapshotId, tag=2)
    aborted_transactions: list[AbortedTransaction] | None = field(
        "4+", default=None, ignorable=True
    )
    preferred_read_replica: int32_node_id = field("11+", default=-1)
    records: record_batches | None


class FetchableTopicResponse(Struct):
    topic: string = field("0-12", default="", ignorable=True)
    topic_id: uuid = field("13+", default=NIL_UUID, ignorable=True)
    partitions: list[PartitionData]


class NodeEndpoint(Struct):
    node_id: int32_node_id
    host: string
    port: int32
    rack: string | None = None


@response(key=1, versions="0-18", flexible="12+")
class FetchResponse(Message):
    throttle_time_ms: int32 = field("1+", default=0, ignorable=True)
    error_code: int16 = field("7+", default=0, ignorable=True)
    session_id: int32 = field("7+", default=0)
    responses: list[FetchableTopicResponse]
    node_endpoints: list[NodeEndpoint] = field("16+", factory=list, tag=0)
