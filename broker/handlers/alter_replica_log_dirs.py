"""AlterReplicaLogDirs (34): moves replicas to other log directories of this broker (KIP-113); answered when the moves have begun.

A replica that is not here yet will be made in the directory named, which is answered with REPLICA_NOT_AVAILABLE as Kafka does.
"""

from __future__ import annotations

from broker.context import Context
from wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from wire.transport.calls import Call
from wire.transport.registry import handles


@handles(AlterReplicaLogDirsRequest, versions="0-2")
def alter_replica_log_dirs(
    request: AlterReplicaLogDirsRequest, ctx: Context, _call: Call
) -> AlterReplicaLogDirsResponse:
    results: dict[str, AlterReplicaLogDirTopicResult] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            result = results.setdefault(
                topic.name, AlterReplicaLogDirTopicResult(topic_name=topic.name, partitions=[])
            )
            result.partitions += [
                AlterReplicaLogDirPartitionResult(
                    partition_index=index,
                    error_code=ctx.moves.request(topic.name, index, directory.path),
                )
                for index in topic.partitions
            ]
    return AlterReplicaLogDirsResponse(results=list(results.values()))
