"""Records of `__consumer_offsets`: groups of the consumer protocol (KIP-848).

A key is its int16 type (the `KEY` of its class) and its fields; a value is an int16 version and its
fields. A group consists of its epoch, its members, the target assignment, and the current assignment of each member.
Type 4 is only read: Kafka 4.0 keeps a hash of the topics in type 3 instead. Type 16 holds the topics that match a
pattern.
"""

from trimaran.wire.codec.declarations import (
    Struct,
    data,
    field,
    int8,
    int32,
    int32_group_epoch,
    int64,
    string,
    uuid,
)
from trimaran.wire.schema import Message, message


@message(key=3, versions="0")
class ConsumerGroupMetadataKey(Message):
    group_id: string


@message(key=3, versions="0", flexible="0+")
class ConsumerGroupMetadataValue(Message):
    epoch: int32_group_epoch
    metadata_hash: int64 = field(default=0, tag=0)


@message(key=4, versions="0")
class ConsumerGroupPartitionMetadataKey(Message):
    group_id: string


class PartitionMetadata(Struct):
    partition: int32
    racks: list[string]


class TopicMetadata(Struct):
    topic_id: uuid
    topic_name: string
    num_partitions: int32
    partition_metadata: list[PartitionMetadata]


@message(key=4, versions="0", flexible="0+")
class ConsumerGroupPartitionMetadataValue(Message):
    topics: list[TopicMetadata]


@message(key=5, versions="0")
class ConsumerGroupMemberMetadataKey(Message):
    group_id: string
    member_id: string


class ClassicProtocol(Struct):
    name: string
    metadata: data


class ClassicMemberMetadata(Struct):
    session_timeout_ms: int32 = 0
    supported_protocols: list[ClassicProtocol] = field(factory=list)


@message(key=5, versions="0", flexible="0+")
class ConsumerGroupMemberMetadataValue(Message):
    instance_id: string | None
    rack_id: string | None
    client_id: string
    client_host: string
    subscribed_topic_names: list[string]
    subscribed_topic_regex: string | None
    rebalance_timeout_ms: int32 = -1
    server_assignor: string | None
    classic_member_metadata: ClassicMemberMetadata | None = field(
        factory=ClassicMemberMetadata, tag=0
    )
    """Null for members of the consumer protocol. Null is not the default, so Kafka writes the field."""


@message(key=6, versions="0")
class ConsumerGroupTargetAssignmentMetadataKey(Message):
    group_id: string


@message(key=6, versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMetadataValue(Message):
    assignment_epoch: int32_group_epoch
    assignment_timestamp: int64 = field(default=0, tag=0)


@message(key=7, versions="0")
class ConsumerGroupTargetAssignmentMemberKey(Message):
    group_id: string
    member_id: string


class TopicPartition(Struct):
    topic_id: uuid
    partitions: list[int32]


@message(key=7, versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMemberValue(Message):
    topic_partitions: list[TopicPartition]


@message(key=8, versions="0")
class ConsumerGroupCurrentMemberAssignmentKey(Message):
    group_id: string
    member_id: string


class TopicPartitions(Struct):
    topic_id: uuid
    partitions: list[int32]
    assignment_epochs: list[int32_group_epoch] | None = field(factory=list, tag=0)


@message(key=8, versions="0", flexible="0+")
class ConsumerGroupCurrentMemberAssignmentValue(Message):
    member_epoch: int32_group_epoch
    previous_member_epoch: int32_group_epoch
    state: int8
    assigned_partitions: list[TopicPartitions]
    partitions_pending_revocation: list[TopicPartitions]


@message(key=16, versions="0")
class ConsumerGroupRegularExpressionKey(Message):
    group_id: string
    regular_expression: string


@message(key=16, versions="0", flexible="0+")
class ConsumerGroupRegularExpressionValue(Message):
    topics: list[string]
    version: int64
    timestamp: int64


ConsumerGroupKey = (
    ConsumerGroupMetadataKey
    | ConsumerGroupPartitionMetadataKey
    | ConsumerGroupMemberMetadataKey
    | ConsumerGroupTargetAssignmentMetadataKey
    | ConsumerGroupTargetAssignmentMemberKey
    | ConsumerGroupCurrentMemberAssignmentKey
    | ConsumerGroupRegularExpressionKey
)
ConsumerGroupValue = (
    ConsumerGroupMetadataValue
    | ConsumerGroupPartitionMetadataValue
    | ConsumerGroupMemberMetadataValue
    | ConsumerGroupTargetAssignmentMetadataValue
    | ConsumerGroupTargetAssignmentMemberValue
    | ConsumerGroupCurrentMemberAssignmentValue
    | ConsumerGroupRegularExpressionValue
)

CONSUMER_GROUP_RECORDS: dict[int, tuple[type[ConsumerGroupKey], type[ConsumerGroupValue]]] = {
    3: (ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
    4: (ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue),
    5: (ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
    6: (ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue),
    7: (ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue),
    8: (ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue),
    16: (ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue),
}
"""By the type of the key: the classes of key and value."""
