"""ElectLeaders (43): elects preferred leaders, or unclean ones.

Versions: 1 the kind of election (KIP-460); 2 flexible.
"""

from trimaran.wire.codec.declarations import Struct, field, int8, int16, int32, string
from trimaran.wire.schema import Message, request, response


class TopicPartitions(Struct):
    topic: string
    partitions: list[int32]


@request(key=43, versions="0-2", flexible="2+")
class ElectLeadersRequest(Message):
    election_type: int8 = field("1+", default=0)
    topic_partitions: list[TopicPartitions] | None
    timeout_ms: int32 = 60000


class PartitionResult(Struct):
    partition_id: int32
    error_code: int16 = 0
    error_message: string | None = None


class ReplicaElectionResult(Struct):
    topic: string
    partition_result: list[PartitionResult]


@response(key=43, versions="0-2", flexible="2+")
class ElectLeadersResponse(Message):
    throttle_time_ms: int32 = 0
    error_code: int16 = field("1+", default=0)
    replica_election_results: list[ReplicaElectionResult]
