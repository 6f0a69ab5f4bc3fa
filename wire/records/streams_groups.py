"""Records of `__consumer_offsets`: groups of Kafka Streams, with their topology and tasks (KIP-1071).

Keys and values are framed as those of `consumer_groups`.
"""

from trimaran.wire.codec.declarations import (
    Struct,
    field,
    int8,
    int16,
    int32,
    int32_group_epoch,
    int32_topology_epoch,
    int64,
    string,
    uint16,
)
from trimaran.wire.schema import Message, message


@message(key=17, versions="0")
class StreamsGroupMetadataKey(Message):
    group_id: string


class LastAssignmentConfig(Struct):
    key: string
    value: string


@message(key=17, versions="0", flexible="0+")
class StreamsGroupMetadataValue(Message):
    epoch: int32_group_epoch
    metadata_hash: int64
    validated_topology_epoch: int32_topology_epoch = field(default=-1, tag=0)
    last_assignment_configs: list[LastAssignmentConfig] | None = field(factory=list, tag=1)
    stored_description_topology_epoch: int32_topology_epoch = field(default=-1, tag=2)
    failed_description_topology_epoch: int32_topology_epoch = field(default=-1, tag=3)


@message(key=19, versions="0")
class StreamsGroupMemberMetadataKey(Message):
    group_id: string
    member_id: string


class Endpoint(Struct):
    host: string
    port: uint16


class KeyValue(Struct):
    key: string
    value: string


@message(key=19, versions="0", flexible="0+")
class StreamsGroupMemberMetadataValue(Message):
    instance_id: string | None
    rack_id: string | None
    client_id: string
    client_host: string
    rebalance_timeout_ms: int32 = -1
    topology_epoch: int32_topology_epoch
    process_id: string
    user_endpoint: Endpoint | None = None
    client_tags: list[KeyValue]


@message(key=20, versions="0")
class StreamsGroupTargetAssignmentMetadataKey(Message):
    group_id: string


@message(key=20, versions="0", flexible="0+")
class StreamsGroupTargetAssignmentMetadataValue(Message):
    assignment_epoch: int32_group_epoch
    assignment_timestamp: int64 = field(default=0, tag=0)


@message(key=21, versions="0")
class StreamsGroupTargetAssignmentMemberKey(Message):
    group_id: string
    member_id: string


class StreamsGroupTargetAssignmentMemberValueTaskIds(Struct):
    subtopology_id: string
    partitions: list[int32]


@message(key=21, versions="0", flexible="0+")
class StreamsGroupTargetAssignmentMemberValue(Message):
    active_tasks: list[StreamsGroupTargetAssignmentMemberValueTaskIds]
    standby_tasks: list[StreamsGroupTargetAssignmentMemberValueTaskIds]
    warmup_tasks: list[StreamsGroupTargetAssignmentMemberValueTaskIds]


@message(key=22, versions="0")
class StreamsGroupCurrentMemberAssignmentKey(Message):
    group_id: string
    member_id: string


class StreamsGroupCurrentMemberAssignmentValueTaskIds(Struct):
    subtopology_id: string
    partitions: list[int32]
    assignment_epochs: list[int32_group_epoch] | None = field(factory=list, tag=0)


@message(key=22, versions="0", flexible="0+")
class StreamsGroupCurrentMemberAssignmentValue(Message):
    member_epoch: int32_group_epoch
    previous_member_epoch: int32_group_epoch
    state: int8
    active_tasks: list[StreamsGroupCurrentMemberAssignmentValueTaskIds]
    standby_tasks: list[StreamsGroupCurrentMemberAssignmentValueTaskIds]
    warmup_tasks: list[StreamsGroupCurrentMemberAssignmentValueTaskIds]
    active_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValueTaskIds]
    standby_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValueTaskIds]
    warmup_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValueTaskIds]


@message(key=23, versions="0")
class StreamsGroupTopologyKey(Message):
    group_id: string


class TopicConfig(Struct):
    key: string
    value: string


class TopicInfo(Struct):
    name: string
    partitions: int32
    replication_factor: int16
    topic_configs: list[TopicConfig]


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


@message(key=23, versions="0", flexible="0+")
class StreamsGroupTopologyValue(Message):
    epoch: int32_topology_epoch
    subtopologies: list[Subtopology]
