"""SubscriptionInfoData: the user data in the subscription of a Kafka Streams client.

Versions: 2 endpoint; 3 the latest version known; 7 sums of offsets for tasks (KIP-441); 8 a byte that
changes to force a rebalance; 9 an error; 10 named topologies; 11 tags (KIP-708).
"""

from trimaran.wire.codec.declarations import Struct, data, field, int8, int32, int64, string, uuid
from trimaran.wire.schema import Message, message


class TaskId(Struct):
    topic_group_id: int32
    partition: int32


class PartitionToOffsetSum(Struct):
    partition: int32
    offset_sum: int64


class TaskOffsetSum(Struct):
    topic_group_id: int32
    partition: int32 = field("10+", default=0)
    offset_sum: int64 = field("10+", default=0)
    named_topology: string | None = field("10+", default="")
    partition_to_offset_sum: list[PartitionToOffsetSum] = field("7-9", factory=list)


class ClientTag(Struct):
    key: data
    value: data


@message(versions="1-11")
class SubscriptionInfoData(Message):
    version: int32
    latest_supported_version: int32 = field("3+", default=-1)
    process_id: uuid
    prev_tasks: list[TaskId] = field("1-6", factory=list)
    standby_tasks: list[TaskId] = field("1-6", factory=list)
    user_end_point: data = field("2+", default=b"")
    task_offset_sums: list[TaskOffsetSum] = field("7+", factory=list)
    unique_field: int8 = field("8+", default=0)
    error_code: int32 = field("9+", default=0)
    client_tags: list[ClientTag] = field("11+", factory=list)
