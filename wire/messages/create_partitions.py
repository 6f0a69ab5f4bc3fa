"""CreatePartitions (37): adds partitions to topics.

Versions: 2 flexible; 3 quotas (KIP-599).
"""

from trimaran.wire.codec.declarations import Struct, boolean, int16, int32, int32_broker_id, string
from trimaran.wire.schema import Message, request, response


class CreatePartitionsAssignment(Struct):
    broker_ids: list[int32_broker_id]


class CreatePartitionsTopic(Struct):
    name: string
    count: int32
    assignments: list[CreatePartitionsAssignment] | None


@request(key=37, versions="0-3", flexible="2+")
class CreatePartitionsRequest(Message):
    topics: list[CreatePartitionsTopic]
    timeout_ms: int32
    validate_only: boolean


class CreatePartitionsTopicResult(Struct):
    name: string
    error_code: int16 = 0
    error_message: string | None = None


@response(key=37, versions="0-3", flexible="2+")
class CreatePartitionsResponse(Message):
    throttle_time_ms: int32 = 0
    results: list[CreatePartitionsTopicResult]
