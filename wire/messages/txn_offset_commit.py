"""TxnOffsetCommit (28): stores a group's offsets as part of a transaction (KIP-98).

Versions: 2 leader epochs (KIP-320); 3 flexible, the member and its generation (KIP-447); 4
TRANSACTION_ABORTABLE; 5 also adds the group to the transaction (KIP-890); 6 topic ids instead of names
(KIP-1319).
"""

from trimaran.wire.buffers.primitives import NIL_UUID
from trimaran.wire.codec.declarations import (
    Struct,
    field,
    int16,
    int16_producer_epoch,
    int32,
    int32_leader_epoch,
    int64_offset,
    int64_producer_id,
    string,
    uuid,
)
from trimaran.wire.schema import Message, request, response


class TxnOffsetCommitRequestPartition(Struct):
    partition_index: int32
    committed_offset: int64_offset
    committed_leader_epoch: int32_leader_epoch = field("2+", default=-1, ignorable=True)
    committed_metadata: string | None


class TxnOffsetCommitRequestTopic(Struct):
    name: string = field("0-5", default="", ignorable=True)
    topic_id: uuid = field("6+", default=NIL_UUID, ignorable=True)
    partitions: list[TxnOffsetCommitRequestPartition]


@request(key=28, versions="0-6", flexible="3+")
class TxnOffsetCommitRequest(Message):
    transactional_id: string
    group_id: string
    producer_id: int64_producer_id
    producer_epoch: int16_producer_epoch
    generation_id_or_member_epoch: int32 = field("3+", default=-1)
    member_id: string = field("3+", default="")
    group_instance_id: string | None = field("3+", default=None)
    topics: list[TxnOffsetCommitRequestTopic]


class TxnOffsetCommitResponsePartition(Struct):
    partition_index: int32
    error_code: int16 = 0


class TxnOffsetCommitResponseTopic(Struct):
    name: string = field("0-5", default="", ignorable=True)
    topic_id: uuid = field("6+", default=NIL_UUID, ignorable=True)
    partitions: list[TxnOffsetCommitResponsePartition]


@response(key=28, versions="0-6", flexible="3+")
class TxnOffsetCommitResponse(Message):
    throttle_time_ms: int32 = 0
    topics: list[TxnOffsetCommitResponseTopic]
