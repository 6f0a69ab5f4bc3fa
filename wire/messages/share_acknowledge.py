"""ShareAcknowledge (79): a member of a share group acknowledges records (KIP-932).

Versions: 0 was early access; 1 is the first stable version; 2 renewal (KIP-1222).
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
    string,
    uuid,
)
from trimaran.wire.schema import Message, request, response


class AcknowledgementBatch(Struct):
    first_offset: int64_offset
    last_offset: int64_offset
    acknowledge_types: list[int8]


class AcknowledgePartition(Struct):
    partition_index: int32
    acknowledgement_batches: list[AcknowledgementBatch]


class AcknowledgeTopic(Struct):
    topic_id: uuid
    partitions: list[AcknowledgePartition]


@request(key=79, versions="0-2", flexible="0+")
class ShareAcknowledgeRequest(Message):
    group_id: string | None = None
    member_id: string | None
    share_session_epoch: int32_session_epoch
    is_renew_ack: boolean = field("2+", default=False)
    topics: list[AcknowledgeTopic]


class LeaderIdAndEpoch(Struct):
    leader_id: int32_broker_id
    leader_epoch: int32_leader_epoch


class PartitionData(Struct):
    partition_index: int32
    error_code: int16 = 0
    error_message: string | None = None
    current_leader: LeaderIdAndEpoch


class ShareAcknowledgeTopicResponse(Struct):
    topic_id: uuid
    partitions: list[PartitionData]


class NodeEndpoint(Struct):
    node_id: int32_broker_id
    host: string
    port: int32
    rack: string | None = None


@response(key=79, versions="0-2", flexible="0+")
class ShareAcknowledgeResponse(Message):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = None
    acquisition_lock_timeout_ms: int32 = field("2+", default=0, ignorable=True)
    responses: list[ShareAcknowledgeTopicResponse]
    node_endpoints: list[NodeEndpoint]
