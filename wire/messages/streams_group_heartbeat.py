"""StreamsGroupHeartbeat (88): a Streams client joins, stays in or leaves its group, and receives its tasks
(KIP-1071).

Versions: 1 the response may request a description of the topology (KIP-1331); the recoverable lag has 64 bits.
"""

from trimaran.wire.codec.declarations import (
    Struct,
    boolean,
    field,
    int8,
    int16,
    int32,
    int32_endpoint_epoch,
    int32_group_epoch,
    int32_topology_epoch,
    int64,
    int64_offset,
    string,
    uint16,
)
from trimaran.wire.schema import Message, request, response


class KeyValue(Struct):
    key: string
    value: string


class TopicInfo(Struct):
    name: string
    partitions: int32
    replication_factor: int16
    topic_configs: list[KeyValue]


class CopartitionGroup(Struct):
    source_topics: list[int16]
    source_topic_regex: list[int16]
    repartition_source_topics: list[int16]


class Subtopology(Struct):
    subtopology_id: string
    source_topics: list[string]
    source_topic_regex: list[string]
    state_changelog_topics: list[TopicInfo]
    repartition_sink_topics: list[string]
    repartition_source_topics: list[TopicInfo]
    copartition_groups: list[CopartitionGroup]


class Topology(Struct):
    epoch: int32_topology_epoch
    subtopologies: list[Subtopology]


class TaskIds(Struct):
    subtopology_id: string
    partitions: list[int32]


class Endpoint(Struct):
    host: string
    port: uint16


class TaskOffset(Struct):
    subtopology_id: string
    partition: int32
    offset: int64_offset


@request(key=88, versions="0-1", flexible="0+")
class StreamsGroupHeartbeatRequest(Message):
    group_id: string
    member_id: string
    member_epoch: int32_group_epoch
    endpoint_information_epoch: int32_endpoint_epoch
    instance_id: string | None = None
    rack_id: string | None = None
    rebalance_timeout_ms: int32 = -1
    topology: Topology | None = None
    active_tasks: list[TaskIds] | None = None
    standby_tasks: list[TaskIds] | None = None
    warmup_tasks: list[TaskIds] | None = None
    process_id: string | None = None
    user_endpoint: Endpoint | None = None
    client_tags: list[KeyValue] | None = None
    task_offsets: list[TaskOffset] | None = None
    task_end_offsets: list[TaskOffset] | None = None
    shutdown_application: boolean = False


class Status(Struct):
    status_code: int8
    status_detail: string


class TopicPartition(Struct):
    topic: string
    partitions: list[int32]


class EndpointToPartitions(Struct):
    user_endpoint: Endpoint
    active_partitions: list[TopicPartition]
    standby_partitions: list[TopicPartition]


@response(key=88, versions="0-1", flexible="0+")
class StreamsGroupHeartbeatResponse(Message):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = None
    member_id: string
    member_epoch: int32_group_epoch
    heartbeat_interval_ms: int32
    acceptable_recovery_lag_legacy: int32 = field("0", default=0)
    task_offset_interval_ms: int32
    acceptable_recovery_lag: int64 = field("1+", default=-1, ignorable=True)
    status: list[Status] | None
    active_tasks: list[TaskIds] | None = None
    standby_tasks: list[TaskIds] | None = None
    warmup_tasks: list[TaskIds] | None = None
    topology_description_required: boolean = field("1+", default=False)
    endpoint_information_epoch: int32_endpoint_epoch
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = None
