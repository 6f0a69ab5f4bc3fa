"""Produce (0): appends record batches to partitions.

Versions: 0 and 1 carry message sets of v0, 2 of v1; 1 returns the throttle time; 2 the log append time; 3 is the first
with v2 batches and transactions; 5 returns the log start offset; 7 allows zstd; 8 returns errors per record (KIP-467);
9 flexible; 10 returns the current leader (KIP-951);
12 lets a transaction begin with its first produce (KIP-890); 13 names topics by id.
"""

from trimaran.wire.buffers.primitives import NIL_UUID
from trimaran.wire.codec.declarations import (
    Struct,
    field,
    int16,
    int32,
    int32_broker_id,
    int32_leader_epoch,
    int64,
    int64_offset,
    record_batches,
    string,
    uuid,
)
from trimaran.wire.identity import NO_LEADER_EPOCH, BrokerId
from trimaran.wire.schema import Message, request, response


class PartitionProduceData(Struct):
    index: int32
    records: record_batches | None


class TopicProduceData(Struct):
    name: string = field("0-12", default="", ignorable=True)
    topic_id: uuid = field("13+", default=NIL_UUID, ignorable=True)
    partition_data: list[PartitionProduceData]


@request(key=0, versions="0-13", flexible="9+")
class ProduceRequest(Message):
    transactional_id: string | None = field("3+", default=None)
    acks: int16
    timeout_ms: int32
    topic_data: list[TopicProduceData]


class BatchIndexAndErrorMessage(Struct):
    batch_index: int32
    batch_index_error_message: string | None = None


class LeaderIdAndEpoch(Struct):
    leader_id: int32_broker_id = BrokerId(-1)
    leader_epoch: int32_leader_epoch = NO_LEADER_EPOCH


class PartitionProduceResponse(Struct):
    index: int32
    error_code: int16 = 0
    base_offset: int64_offset
    log_append_time_ms: int64 = field("2+", default=-1, ignorable=True)
    log_start_offset: int64_offset = field("5+", default=-1, ignorable=True)
    record_errors: list[BatchIndexAndErrorMessage] = field("8+", factory=list, ignorable=True)
    error_message: string | None = field("8+", default=None, ignorable=True)
    current_leader: LeaderIdAndEpoch = field("10+", factory=LeaderIdAndEpoch, tag=0)


class TopicProduceResponse(Struct):
    name: string = field("0-12", default="", ignorable=True)
    topic_id: uuid = field("13+", default=NIL_UUID, ignorable=True)
    partition_responses: list[PartitionProduceResponse]


class NodeEndpoint(Struct):
    node_id: int32_broker_id
    host: string
    port: int32
    rack: string | None = None


@response(key=0, versions="0-13", flexible="9+")
class ProduceResponse(Message):
    responses: list[TopicProduceResponse]
    throttle_time_ms: int32 = field("1+", default=0, ignorable=True)
    node_endpoints: list[NodeEndpoint] = field("10+", factory=list, tag=0)
