"""ShareGroupHeartbeat (76): a member joins, stays in or leaves a share group (KIP-932).

Versions: 0 was early access; 1 is the first stable version.
"""

from trimaran.wire.codec.declarations import Struct, int16, int32, int32_group_epoch, string, uuid
from trimaran.wire.schema import Message, request, response


@request(key=76, versions="0-1", flexible="0+")
class ShareGroupHeartbeatRequest(Message):
    group_id: string
    member_id: string
    member_epoch: int32_group_epoch
    rack_id: string | None = None
    subscribed_topic_names: list[string] | None = None


class TopicPartitions(Struct):
    topic_id: uuid
    partitions: list[int32]


class Assignment(Struct):
    topic_partitions: list[TopicPartitions]


@response(key=76, versions="0-1", flexible="0+")
class ShareGroupHeartbeatResponse(Message):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = None
    member_id: string | None = None
    member_epoch: int32_group_epoch
    heartbeat_interval_ms: int32
    assignment: Assignment | None = None
