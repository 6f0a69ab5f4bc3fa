"""ShareFetch (78): a member of a share group acquires records, and acknowledges earlier ones (KIP-932).

Versions: 0 was early access; 1 is the first stable version; 2 the strictness of the acquire limit, and renewal
(KIP-1206, KIP-1222).
"""

from trimaran.wire.codec.declarations import (
    Struct,
    boolean,
    field,
    int8,
    int16,
    int32,
    int32_broker_id,
    int32_leader_epoch,
    int32_session_epoch,
    int64_offset,
    record_batches,
    string,
    uuid,
)
from trimaran.wire.schema import Message, request, response


class AcknowledgementBatch(Struct):
    first_offset: int64_offset
    last_offset: int64_offset
    acknowledge_types: list[int8]


class FetchPartition(Struct):
    partition_index: int32
    partition_max_bytes: int32 = field("0", default=0)
    acknowledgement_batches: list[AcknowledgementBatch]


class FetchTopic(Struct):
    topic_id: uuid
    partitions: list[FetchPartition]


class ForgottenTopic(Struct):
    topic_id: uuid
    partitions: list[int32]


@request(key=78, versions="0-2", flexible="0+")
class ShareFetchRequest(Message):
    group_id: string | None = None
    member_id: string | None
    share_session_epoch: int32_session_epoch
    max_wait_ms: int32
    min_bytes: int32
    max_bytes: int32 = 0x7FFFFFFF
    max_records: int32 = field("1+", default=0)
    batch_size: int32 = field("1+", default=0)
    share_acquire_mode: int8 = field("2+", default=0, ignorable=True)
    is_renew_ack: boolean = field("2+", default=False)
    topics: list[FetchTopic]
    forgotten_topics_data: list[ForgottenTopic]


class LeaderIdAndEpoch(Struct):
    leader_id: int32_broker_id
    leader_epoch: int32_leader_epoch


class AcquiredRecords(Struct):
    first_offset: int64_offset
    last_offset: int64_offset
    delivery_count: int16


class PartitionData(Struct):
    partition_index: int32
    error_code: int16 = 0
    error_message: string | None = None
    acknowledge_error_code: int16 = 0
    acknowledge_error_message: string | None = None
    current_leader: LeaderIdAndEpoch
    records: record_batches | None = field(nullable="0")
    acquired_records: list[AcquiredRecords]


class ShareFetchableTopicResponse(Struct):
    topic_id: uuid
    partitions: list[PartitionData]


class NodeEndpoint(Struct):
    node_id: int32_broker_id
    host: string
    port: int32
    rack: string | None = None


@response(key=78, versions="0-2", flexible="0+")
class ShareFetchResponse(Message):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = None
    acquisition_lock_timeout_ms: int32 = field("1+", default=0)
    responses: list[ShareFetchableTopicResponse]
    node_endpoints: list[NodeEndpoint]
