"""DescribeTopicPartitions (75): partitions of topics, page by page (KIP-966)."""

from trimaran.wire.codec.declarations import (
    Struct,
    boolean,
    int16,
    int32,
    int32_broker_id,
    int32_leader_epoch,
    string,
    uuid,
)
from trimaran.wire.identity import NO_LEADER_EPOCH
from trimaran.wire.schema import Message, request, response


class TopicRequest(Struct):
    name: string


class Cursor(Struct):
    topic_name: string
    partition_index: int32


@request(key=75, versions="0", flexible="0+")
class DescribeTopicPartitionsRequest(Message):
    topics: list[TopicRequest]
    response_partition_limit: int32 = 2000
    cursor: Cursor | None = None


class DescribeTopicPartitionsResponsePartition(Struct):
    error_code: int16 = 0
    partition_index: int32
    leader_id: int32_broker_id
    leader_epoch: int32_leader_epoch = NO_LEADER_EPOCH
    replica_nodes: list[int32_broker_id]
    isr_nodes: list[int32_broker_id]
    eligible_leader_replicas: list[int32_broker_id] | None = None
    last_known_elr: list[int32_broker_id] | None = None
    offline_replicas: list[int32_broker_id]


class DescribeTopicPartitionsResponseTopic(Struct):
    error_code: int16 = 0
    name: string | None
    topic_id: uuid
    is_internal: boolean = False
    partitions: list[DescribeTopicPartitionsResponsePartition]
    topic_authorized_operations: int32 = -2147483648


@response(key=75, versions="0", flexible="0+")
class DescribeTopicPartitionsResponse(Message):
    throttle_time_ms: int32 = 0
    topics: list[DescribeTopicPartitionsResponseTopic]
    next_cursor: Cursor | None = None
