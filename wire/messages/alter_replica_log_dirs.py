"""AlterReplicaLogDirs (34): moves replicas between the log directories of one broker (KIP-113).

Versions: 2 flexible.
"""

from trimaran.wire.codec.declarations import Struct, int16, int32, string
from trimaran.wire.schema import Message, request, response


class AlterReplicaLogDirTopic(Struct):
    name: string
    partitions: list[int32]


class AlterReplicaLogDir(Struct):
    path: string
    topics: list[AlterReplicaLogDirTopic]


@request(key=34, versions="0-2", flexible="2+")
class AlterReplicaLogDirsRequest(Message):
    dirs: list[AlterReplicaLogDir]


class AlterReplicaLogDirPartitionResult(Struct):
    partition_index: int32
    error_code: int16 = 0


class AlterReplicaLogDirTopicResult(Struct):
    topic_name: string
    partitions: list[AlterReplicaLogDirPartitionResult]


@response(key=34, versions="0-2", flexible="2+")
class AlterReplicaLogDirsResponse(Message):
    throttle_time_ms: int32 = 0
    results: list[AlterReplicaLogDirTopicResult]
