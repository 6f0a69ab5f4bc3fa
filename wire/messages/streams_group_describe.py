"""StreamsGroupDescribe (89): topology, members and tasks of Streams groups (KIP-1071).

Versions: 1 the description of the topology (KIP-1331), if requested, and the assignor.
"""

from trimaran.wire.codec.declarations import (
    Struct,
    boolean,
    field,
    int8,
    int16,
    int32,
    int32_group_epoch,
    int32_topology_epoch,
    int64_offset,
    string,
    uint16,
)
from trimaran.wire.messages.streams_group_topology_description_update import TopologyDescription
from trimaran.wire.schema import Message, request, response


@request(key=89, versions="0-1", flexible="0+")
class StreamsGroupDescribeRequest(Message):
    group_ids: list[string]
    include_authorized_operations: boolean
    include_topology_description: boolean = field("1+", default=False)


class KeyValue(Struct):
    key: string
    value: string


class TopicInfo(Struct):
    name: string
    partitions: int32
    replication_factor: int16
    topic_configs: list[KeyValue]


class Subtopology(Struct):
    subtopology_id: string
    source_topics: list[string]
    repartition_sink_topics: list[string]
    state_changelog_topics: list[TopicInfo]
    repartition_source_topics: list[TopicInfo]


class Topology(Struct):
    epoch: int32_topology_epoch
    subtopologies: list[Subtopology] | None = None


class Endpoint(Struct):
    host: string
    port: uint16


class TaskOffset(Struct):
    subtopology_id: string
    partition: int32
    offset: int64_offset


class TaskIds(Struct):
    subtopology_id: string
    partitions: list[int32]


class Assignment(Struct):
    active_tasks: list[TaskIds]
    standby_tasks: list[TaskIds]
    warmup_tasks: list[TaskIds]


class Member(Struct):
    member_id: string
    member_epoch: int32_group_epoch
    instance_id: string | None = None
    rack_id: string | None = None
    client_id: string
    client_host: string
    topology_epoch: int32_topology_epoch
    process_id: string
    user_endpoint: Endpoint | None = None
    client_tags: list[KeyValue]
    task_offsets: list[TaskOffset]
    task_end_offsets: list[TaskOffset]
    assignment: Assignment
    target_assignment: Assignment
    is_classic: boolean


class DescribedGroup(Struct):
    error_code: int16 = 0
    error_message: string | None = None
    group_id: string
    group_state: string
    group_epoch: int32_group_epoch
    assignment_epoch: int32_group_epoch
    topology: Topology | None = None
    members: list[Member]
    authorized_operations: int32 = -2147483648
    topology_description: TopologyDescription | None = field("1+", default=None)
    topology_description_status: int8 = field("1+", default=0)
    assignor_name: string | None = field("1+", default=None, ignorable=True)


@response(key=89, versions="0-1", flexible="0+")
class StreamsGroupDescribeResponse(Message):
    throttle_time_ms: int32 = 0
    groups: list[DescribedGroup]
