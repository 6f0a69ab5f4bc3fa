"""AlterPartitionReassignments (45): starts or cancels moves of partitions (KIP-455).

Versions: 1 a flag that permits a changed replication factor (KIP-860).
"""

from trimaran.wire.codec.declarations import (
    Struct,
    boolean,
    field,
    int16,
    int32,
    int32_broker_id,
    string,
)
from trimaran.wire.schema import Message, request, response


class ReassignablePartition(Struct):
    partition_index: int32
    replicas: list[int32_broker_id] | None = None


class ReassignableTopic(Struct):
    name: string
    partitions: list[ReassignablePartition]


@request(key=45, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsRequest(Message):
    timeout_ms: int32 = 60000
    allow_replication_factor_change: boolean = field("1+", default=True)
    topics: list[ReassignableTopic]


class ReassignablePartitionResponse(Struct):
    partition_index: int32
    error_code: int16 = 0
    error_message: string | None = None


class ReassignableTopicResponse(Struct):
    name: string
    partitions: list[ReassignablePartitionResponse]


@response(key=45, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsResponse(Message):
    throttle_time_ms: int32 = 0
    allow_replication_factor_change: boolean = field("1+", default=True, ignorable=True)
    error_code: int16 = 0
    error_message: string | None = None
    responses: list[ReassignableTopicResponse]
