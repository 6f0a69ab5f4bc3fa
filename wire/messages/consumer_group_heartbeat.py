"""ConsumerGroupHeartbeat (68): a consumer joins, stays in or leaves its group, and receives its partitions (KIP-848).

Versions: 1 subscription by a pattern that the broker evaluates; members choose their ids (KIP-1082).
"""

from trimaran.wire.codec.declarations import (
    Struct,
    field,
    int16,
    int32,
    int32_group_epoch,
    string,
    uuid,
)
from trimaran.wire.schema import Message, request, response


class TopicPartitions(Struct):
    topic_id: uuid
    partitions: list[int32]


@request(key=68, versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatRequest(Message):
    group_id: string
    member_id: string
    member_epoch: int32_group_epoch
    instance_id: string | None = None
    rack_id: string | None = None
    rebalance_timeout_ms: int32 = -1
    subscribed_topic_names: list[string] | None = None
    subscribed_topic_regex: string | None = field("1+", default=None)
    server_assignor: string | None = None
    topic_partitions: list[TopicPartitions] | None = None


class Assignment(Struct):
    topic_partitions: list[TopicPartitions]


@response(key=68, versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatResponse(Message):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = None
    member_id: string | None = None
    member_epoch: int32_group_epoch
    heartbeat_interval_ms: int32
    assignment: Assignment | None = None
