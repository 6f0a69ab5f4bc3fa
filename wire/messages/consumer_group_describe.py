"""ConsumerGroupDescribe (69): members and assignments of groups of the consumer protocol (KIP-848).

Versions: 1 returns the protocol of each member (KIP-1099).
"""

from trimaran.wire.codec.declarations import (
    Struct,
    boolean,
    field,
    int8,
    int16,
    int32,
    int32_group_epoch,
    string,
    uuid,
)
from trimaran.wire.schema import Message, request, response


@request(key=69, versions="0-1", flexible="0+")
class ConsumerGroupDescribeRequest(Message):
    group_ids: list[string]
    include_authorized_operations: boolean


class TopicPartitions(Struct):
    topic_id: uuid
    topic_name: string
    partitions: list[int32]


class Assignment(Struct):
    topic_partitions: list[TopicPartitions]


class Member(Struct):
    member_id: string
    instance_id: string | None = None
    rack_id: string | None = None
    member_epoch: int32_group_epoch
    client_id: string
    client_host: string
    subscribed_topic_names: list[string]
    subscribed_topic_regex: string | None = None
    assignment: Assignment
    target_assignment: Assignment
    member_type: int8 = field("1+", default=-1, ignorable=True)


class DescribedGroup(Struct):
    error_code: int16 = 0
    error_message: string | None = None
    group_id: string
    group_state: string
    group_epoch: int32_group_epoch
    assignment_epoch: int32_group_epoch
    assignor_name: string
    members: list[Member]
    authorized_operations: int32 = -2147483648


@response(key=69, versions="0-1", flexible="0+")
class ConsumerGroupDescribeResponse(Message):
    throttle_time_ms: int32 = 0
    groups: list[DescribedGroup]
