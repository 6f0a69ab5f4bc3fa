"""ListPartitionReassignments (46): lists ongoing moves of partitions (KIP-455)."""

from trimaran.wire.codec.declarations import Struct, int16, int32, int32_broker_id, string
from trimaran.wire.schema import Message, request, response


class ListPartitionReassignmentsTopics(Struct):
    name: string
    partition_indexes: list[int32]


@request(key=46, versions="0", flexible="0+")
class ListPartitionReassignmentsRequest(Message):
    timeout_ms: int32 = 60000
    topics: list[ListPartitionReassignmentsTopics] | None = None


class OngoingPartitionReassignment(Struct):
    partition_index: int32
    replicas: list[int32_broker_id]
    adding_replicas: list[int32_broker_id]
    removing_replicas: list[int32_broker_id]


class OngoingTopicReassignment(Struct):
    name: string
    partitions: list[OngoingPartitionReassignment]


@response(key=46, versions="0", flexible="0+")
class ListPartitionReassignmentsResponse(Message):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = None
    topics: list[OngoingTopicReassignment]
