"""Records of `__remote_log_metadata`: segments in tiered storage (KIP-405).

They are framed like metadata records, with their own types.
"""

from trimaran.wire.codec.declarations import (
    Struct,
    boolean,
    data,
    field,
    int8,
    int32,
    int32_broker_id,
    int32_leader_epoch,
    int64,
    int64_offset,
    string,
    uuid,
)
from trimaran.wire.schema import Message, record


class TopicIdPartitionEntry(Struct):
    name: string
    id: uuid
    partition: int32


class RemoteLogSegmentIdEntry(Struct):
    topic_id_partition: TopicIdPartitionEntry
    id: uuid


class SegmentLeaderEpochEntry(Struct):
    leader_epoch: int32_leader_epoch
    offset: int64_offset


@record(key=0, versions="0", flexible="0+")
class RemoteLogSegmentMetadataRecord(Message):
    remote_log_segment_id: RemoteLogSegmentIdEntry
    start_offset: int64_offset
    end_offset: int64_offset
    broker_id: int32_broker_id
    max_timestamp_ms: int64
    event_timestamp_ms: int64
    segment_leader_epochs: list[SegmentLeaderEpochEntry]
    segment_size_in_bytes: int32
    custom_metadata: data | None = None
    remote_log_segment_state: int8
    txn_index_empty: boolean = field(default=False, tag=0)


@record(key=1, versions="0", flexible="0+")
class RemoteLogSegmentMetadataUpdateRecord(Message):
    remote_log_segment_id: RemoteLogSegmentIdEntry
    broker_id: int32_broker_id
    event_timestamp_ms: int64
    custom_metadata: data | None = None
    remote_log_segment_state: int8


@record(key=2, versions="0", flexible="0+")
class RemotePartitionDeleteMetadataRecord(Message):
    topic_id_partition: TopicIdPartitionEntry
    broker_id: int32_broker_id
    event_timestamp_ms: int64
    remote_partition_delete_state: int8


@record(key=3, versions="0", flexible="0+")
class RemoteLogSegmentMetadataSnapshotRecord(Message):
    segment_id: uuid
    start_offset: int64_offset
    end_offset: int64_offset
    broker_id: int32_broker_id
    max_timestamp_ms: int64
    event_timestamp_ms: int64
    segment_leader_epochs: list[SegmentLeaderEpochEntry]
    segment_size_in_bytes: int32
    custom_metadata: data | None = None
    remote_log_segment_state: int8
    txn_index_empty: boolean = field(default=False, tag=0)
