"""Metadata (3): brokers, topics and the leaders of their partitions.

Versions: 1 the controller and racks, null for all topics; 4 automatic creation may be disabled; 5
offline replicas; 7 leader epochs; 8 authorized operations; 9 flexible; 10 topic ids (KIP-516); 11
moves cluster operations to DescribeCluster; 12 requests by topic id; 13 a top-level error (KIP-1102).
"""

from trimaran.wire.buffers.primitives import NIL_UUID
from trimaran.wire.codec.declarations import (
    Struct,
    boolean,
    field,
    int16,
    int32,
    int32_broker_id,
    int32_leader_epoch,
    int32_node_id,
    string,
    uuid,
)
from trimaran.wire.schema import Message, request, response


class MetadataRequestTopic(Struct):
    topic_id: uuid = field("10+", default=NIL_UUID, ignorable=True)
    name: string | None = field(nullable="10+")


@request(key=3, versions="0-13", flexible="9+")
class MetadataRequest(Message):
    topics: list[MetadataRequestTopic] | None = field(nullable="1+")
    allow_auto_topic_creation: boolean = field("4+", default=True)
    include_cluster_authorized_operations: boolean = field("8-10", default=False)
    include_topic_authorized_operations: boolean = field("8+", default=False)


class MetadataResponseBroker(Struct):
    node_id: int32_broker_id
    host: string
    port: int32
    rack: string | None = field("1+", default=None, ignorable=True)


class MetadataResponsePartition(Struct):
    error_code: int16 = 0
    partition_index: int32
    leader_id: int32_broker_id
    leader_epoch: int32_leader_epoch = field("7+", default=-1, ignorable=True)
    replica_nodes: list[int32_broker_id]
    isr_nodes: list[int32_broker_id]
    offline_replicas: list[int32_broker_id] = field("5+", factory=list, ignorable=True)


class MetadataResponseTopic(Struct):
    error_code: int16 = 0
    name: string | None = field(nullable="12+")
    topic_id: uuid = field("10+", default=NIL_UUID, ignorable=True)
    is_internal: boolean = field("1+", default=False, ignorable=True)
    partitions: list[MetadataResponsePartition]
    topic_authorized_operations: int32 = field("8+", default=-2147483648)


@response(key=3, versions="0-13", flexible="9+")
class MetadataResponse(Message):
    throttle_time_ms: int32 = field("3+", default=0, ignorable=True)
    brokers: list[MetadataResponseBroker]
    cluster_id: string | None = field("2+", default=None, ignorable=True)
    controller_id: int32_node_id = field("1+", default=-1, ignorable=True)
    topics: list[MetadataResponseTopic]
    cluster_authorized_operations: int32 = field("8-10", default=-2147483648)
    error_code: int16 = field("13+", default=0, ignorable=True)
