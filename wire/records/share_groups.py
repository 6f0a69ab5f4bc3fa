"""Records of `__consumer_offsets`: share groups (KIP-932).

Keys and values are framed as those of `consumer_groups`. Type 9 was used by the early access in 3.9.
"""

from trimaran.wire.codec.declarations import (
    Struct,
    field,
    int8,
    int32,
    int32_group_epoch,
    int64,
    string,
    uuid,
)
from trimaran.wire.schema import Message, message


@message(key=9, versions="0")
class ShareGroupPartitionMetadataKey(Message):
    group_id: string


class TopicPartitionsInfo(Struct):
    topic_id: uuid
    topic_name: string
    partitions: list[int32]


class TopicInfo(Struct):
    topic_id: uuid
    topic_name: string


@message(key=9, versions="0", flexible="0+")
class ShareGroupPartitionMetadataValue(Message):
    initialized_topics: list[TopicPartitionsInfo]
    deleting_topics: list[TopicInfo]


@message(key=10, versions="0")
class ShareGroupMemberMetadataKey(Message):
    group_id: string
    member_id: string


@message(key=10, versions="0", flexible="0+")
class ShareGroupMemberMetadataValue(Message):
    rack_id: string | None
    client_id: string
    client_host: string
    subscribed_topic_names: list[string]


@message(key=11, versions="0")
class ShareGroupMetadataKey(Message):
    group_id: string


@message(key=11, versions="0", flexible="0+")
class ShareGroupMetadataValue(Message):
    epoch: int32_group_epoch
    metadata_hash: int64


@message(key=12, versions="0")
class ShareGroupTargetAssignmentMetadataKey(Message):
    group_id: string


@message(key=12, versions="0", flexible="0+")
class ShareGroupTargetAssignmentMetadataValue(Message):
    assignment_epoch: int32_group_epoch
    assignment_timestamp: int64 = field(default=0, tag=0)


@message(key=13, versions="0")
class ShareGroupTargetAssignmentMemberKey(Message):
    group_id: string
    member_id: string


class TopicPartition(Struct):
    topic_id: uuid
    partitions: list[int32]


@message(key=13, versions="0", flexible="0+")
class ShareGroupTargetAssignmentMemberValue(Message):
    topic_partitions: list[TopicPartition]


@message(key=14, versions="0")
class ShareGroupCurrentMemberAssignmentKey(Message):
    group_id: string
    member_id: string


class TopicPartitions(Struct):
    topic_id: uuid
    partitions: list[int32]


@message(key=14, versions="0", flexible="0+")
class ShareGroupCurrentMemberAssignmentValue(Message):
    member_epoch: int32_group_epoch
    previous_member_epoch: int32_group_epoch
    state: int8
    assigned_partitions: list[TopicPartitions]


@message(key=15, versions="0")
class ShareGroupStatePartitionMetadataKey(Message):
    group_id: string


@message(key=15, versions="0", flexible="0+")
class ShareGroupStatePartitionMetadataValue(Message):
    initializing_topics: list[TopicPartitionsInfo]
    initialized_topics: list[TopicPartitionsInfo]
    deleting_topics: list[TopicInfo]


ShareGroupKey = (
    ShareGroupPartitionMetadataKey
    | ShareGroupMemberMetadataKey
    | ShareGroupMetadataKey
    | ShareGroupTargetAssignmentMetadataKey
    | ShareGroupTargetAssignmentMemberKey
    | ShareGroupCurrentMemberAssignmentKey
    | ShareGroupStatePartitionMetadataKey
)
ShareGroupValue = (
    ShareGroupPartitionMetadataValue
    | ShareGroupMemberMetadataValue
    | ShareGroupMetadataValue
    | ShareGroupTargetAssignmentMetadataValue
    | ShareGroupTargetAssignmentMemberValue
    | ShareGroupCurrentMemberAssignmentValue
    | ShareGroupStatePartitionMetadataValue
)

SHARE_GROUP_RECORDS: dict[int, tuple[type[ShareGroupKey], type[ShareGroupValue]]] = {
    9: (ShareGroupPartitionMetadataKey, ShareGroupPartitionMetadataValue),
    10: (ShareGroupMemberMetadataKey, ShareGroupMemberMetadataValue),
    11: (ShareGroupMetadataKey, ShareGroupMetadataValue),
    12: (ShareGroupTargetAssignmentMetadataKey, ShareGroupTargetAssignmentMetadataValue),
    13: (ShareGroupTargetAssignmentMemberKey, ShareGroupTargetAssignmentMemberValue),
    14: (ShareGroupCurrentMemberAssignmentKey, ShareGroupCurrentMemberAssignmentValue),
    15: (ShareGroupStatePartitionMetadataKey, ShareGroupStatePartitionMetadataValue),
}
"""By the type of the key: the classes of key and value."""
