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
    int64,
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
    leader_epoch: int32
    offset: int64


@record(key=0, versions="0", flexible="0+")
class RemoteLogSegmentMetadataRecord(Message):
    remote_log_segment_id: RemoteLogSegmentIdEntry
    start_offset: int64
    end_offset: int64
    broker_id: int32
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
    broker_id: int32
    event_timestamp_ms: int64
    custom_metadata: data | None = None
    remote_log_segment_state: int8


@record(key=2, versions="0", flexible="0+")
class RemotePartitionDeleteMetadataRecord(Message):
    topic_id_partition: TopicIdPartitionEntry
    broker_id: int32
    event_timestamp_ms: int64
    remote_partition_delete_state: int8


@record(key=3, versions="0", flexible="0+")
class RemoteLogSegmentMetadataSnapshotRecord(Message):
    segment_id: uuid
    start_offset: int64
    end_offset: int64
    broker_id: int32
    max_timestamp_ms: int64
    event_timestamp_ms: int64
    segment_leader_epochs: list[SegmentLeaderEpochEntry]
    segment_size_in_bytes: int32
    custom_metadata: data | None = None
    remote_log_segment_state: int8
    txn_index_empty: boolean = field(default=False, tag=0)
