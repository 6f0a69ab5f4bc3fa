"""AlterReplicaLogDirs (34): moves replicas to other log directories of this broker (KIP-113); the response is sent once
the moves have begun.

A replica that this broker does not have yet will be created in the requested directory; the answer for it is
REPLICA_NOT_AVAILABLE, as in Kafka.
"""

from __future__ import annotations

from trimaran.broker.handlers.context import DirectoryContext
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import TopicPartition
from trimaran.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import cluster
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import PARTITIONS_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Handling


def _fail(
    request: AlterReplicaLogDirsRequest, code: ErrorCode, _message: str
) -> AlterReplicaLogDirsResponse:
    codes = {
        TopicPartition(topic.name, index): code
        for directory in request.dirs
        for topic in directory.topics
        for index in topic.partitions
    }
    response = AlterReplicaLogDirsResponse(results=[])
    by_name: dict[str, AlterReplicaLogDirTopicResult] = {}
    for key in codes:
        _add(key, code, by_name, response)
    return response


@handles(
    AlterReplicaLogDirsRequest,
    versions="0-2",
    access=cluster(Operation.ALTER),
    on_error=_fail,
    elements_max=PARTITIONS_ELEMENTS_MAX,
)
def alter_replica_log_dirs(
    request: AlterReplicaLogDirsRequest, ctx: DirectoryContext, _call: Call
) -> Handling[AlterReplicaLogDirsResponse]:
    wanted: dict[TopicPartition, str] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            for index in topic.partitions:
                # If a replica is listed under two directories, the last one counts, as in Kafka.
                wanted[TopicPartition(topic.name, index)] = directory.path
                yield None
            yield None
    response = AlterReplicaLogDirsResponse(results=[])
    by_name: dict[str, AlterReplicaLogDirTopicResult] = {}
    for key, path in wanted.items():
        _add(key, ctx.moves.request(key, path), by_name, response)
        yield None
    return response


def _add(
    key: TopicPartition,
    code: int,
    by_name: dict[str, AlterReplicaLogDirTopicResult],
    response: AlterReplicaLogDirsResponse,
) -> None:
    name, index = key
    result = by_name.get(name)
    if result is None:
        result = by_name[name] = AlterReplicaLogDirTopicResult(topic_name=name, partitions=[])
        response.results.append(result)
    result.partitions.append(
        AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code)
    )
