"""ShareGroupDescribe (77): members and assignments of share groups (KIP-932).

Versions: 0 was early access; 1 is the first stable version.
"""

from trimaran.wire.codec.declarations import (
    Struct,
    boolean,
    int16,
    int32,
    int32_group_epoch,
    string,
    uuid,
)
from trimaran.wire.schema import Message, request, response


@request(key=77, versions="0-1", flexible="0+")
class ShareGroupDescribeRequest(Message):
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
    rack_id: string | None = None
    member_epoch: int32_group_epoch
    client_id: string
    client_host: string
    subscribed_topic_names: list[string]
    assignment: Assignment


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


@response(key=77, versions="0-1", flexible="0+")
class ShareGroupDescribeResponse(Message):
    throttle_time_ms: int32 = 0
    groups: list[DescribedGroup]
