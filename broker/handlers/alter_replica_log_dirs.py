"""AlterReplicaLogDirs (34): moves replicas to other log directories of this broker (KIP-113); answered when the moves have begun.

A replica that is not here yet will be made in the directory named, which is answered with REPLICA_NOT_AVAILABLE as Kafka does.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.handlers.context import Context
from wire.errors import ErrorCode
from wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from wire.security.acls import Operation
from wire.transport.access import cluster
from wire.transport.calls import Call
from wire.transport.registry import handles


def _each(
    request: AlterReplicaLogDirsRequest, code_of: Callable[[str, int, str], int]
) -> AlterReplicaLogDirsResponse:
    """`code_of` gets topic, partition and path."""
    results: dict[str, AlterReplicaLogDirTopicResult] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            result = results.setdefault(
                topic.name, AlterReplicaLogDirTopicResult(topic_name=topic.name, partitions=[])
            )
            result.partitions += [
                AlterReplicaLogDirPartitionResult(
                    partition_index=index, error_code=code_of(topic.name, index, directory.path)
                )
                for index in topic.partitions
            ]
    return AlterReplicaLogDirsResponse(results=list(results.values()))


def _fail(
    request: AlterReplicaLogDirsRequest, code: ErrorCode, _message: str
) -> AlterReplicaLogDirsResponse:
    return _each(request, lambda _topic, _index, _path: code)


@handles(
    AlterReplicaLogDirsRequest, versions="0-2", access=cluster(Operation.ALTER), on_error=_fail
)
def alter_replica_log_dirs(
    request: AlterReplicaLogDirsRequest, ctx: Context, _call: Call
) -> AlterReplicaLogDirsResponse:
    return _each(request, ctx.moves.request)
