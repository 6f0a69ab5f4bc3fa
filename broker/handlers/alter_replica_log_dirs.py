"""AlterReplicaLogDirs (34): moves replicas to other log directories of this broker (KIP-113); answered when the moves
have begun.

A replica that is not here yet will be made in the directory named, which is answered with REPLICA_NOT_AVAILABLE as
Kafka does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from trimaran.broker.handlers.context import DirectoryContext
from trimaran.node.runtime.steps import Steps, at_once
from trimaran.node.runtime.turns import with_checkpoints
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
from trimaran.wire.transport.requests.calls import Call, DeferredResponse
from trimaran.wire.transport.requests.elements import PARTITIONS_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles

# Asked for between two checkpoints: 5 ms of work.
MOVES_PER_TURN = 500


def _each(
    request: AlterReplicaLogDirsRequest, code_of: Callable[[TopicPartition, str], int]
) -> Steps[AlterReplicaLogDirsResponse]:
    """`code_of` gets a partition and a path. In steps of a topic or partition."""
    wanted: dict[TopicPartition, str] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            yield 1
            for index in topic.partitions:
                # Of two directories the last counts, as in Kafka.
                wanted[TopicPartition(topic.name, index)] = directory.path
                yield 1
    results: dict[str, AlterReplicaLogDirTopicResult] = {}
    for key, path in wanted.items():
        name, index = key
        result = results.get(name)
        if result is None:
            result = AlterReplicaLogDirTopicResult(topic_name=name, partitions=[])
            results[name] = result
        code = code_of(key, path)
        result.partitions.append(
            AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code)
        )
        yield 1
    return AlterReplicaLogDirsResponse(results=list(results.values()))


def _fail(
    request: AlterReplicaLogDirsRequest, code: ErrorCode, _message: str
) -> AlterReplicaLogDirsResponse:
    return at_once(_each(request, lambda _key, _path: code))


@handles(
    AlterReplicaLogDirsRequest,
    versions="0-2",
    access=cluster(Operation.ALTER),
    on_error=_fail,
    elements_max=PARTITIONS_ELEMENTS_MAX,
)
def alter_replica_log_dirs(
    request: AlterReplicaLogDirsRequest, ctx: DirectoryContext, call: Call
) -> AlterReplicaLogDirsResponse | DeferredResponse[AlterReplicaLogDirsResponse]:
    answering = _each(request, ctx.moves.request)
    if not call.heavy:
        return at_once(answering)
    return DeferredResponse(
        lambda: with_checkpoints(answering, MOVES_PER_TURN), on_error=partial(_fail, request)
    )
