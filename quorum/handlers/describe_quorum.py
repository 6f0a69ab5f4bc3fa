"""DescribeQuorum: returns leader, epoch, high watermark and the progress of every replica (KIP-595, KIP-836).

Only the leader knows these; other nodes return NOT_LEADER_OR_FOLLOWER. Brokers forward the request to the leader.
"""

from __future__ import annotations

from trimaran.quorum.handlers.context import QuorumContext
from trimaran.quorum.raft_log.partition import PARTITION, TOPIC
from trimaran.quorum.replica.status import QuorumStatus, ReplicaStatus
from trimaran.wire.buffers.primitives import NIL_UUID
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import NO_LEADER_EPOCH, NO_NODE, NO_OFFSET
from trimaran.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseTopicData,
    Listener,
    Node,
    ReplicaState,
)
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import cluster
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import FEW_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles

VERSION_WITH_NODES = 2


@handles(
    DescribeQuorumRequest,
    versions="0-2",
    access=cluster(Operation.DESCRIBE),
    elements_max=FEW_ELEMENTS_MAX,
)
def describe_quorum(
    request: DescribeQuorumRequest, ctx: QuorumContext, call: Call
) -> DescribeQuorumResponse:
    if not _asks_for_metadata(request):
        return _each_unknown(request)
    status = ctx.node.describe()
    version = call.header.api_version
    if not ctx.node.is_leader:
        return _response(_partition(ErrorCode.NOT_LEADER_OR_FOLLOWER), [])
    nodes = _nodes(ctx) if version >= VERSION_WITH_NODES else []
    return _response(_described(status, version), nodes)


def _asks_for_metadata(request: DescribeQuorumRequest) -> bool:
    topics = request.topics
    return (
        len(topics) == 1
        and topics[0].topic_name == TOPIC
        and [partition.partition_index for partition in topics[0].partitions] == [PARTITION]
    )


def _each_unknown(request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    if not any(topic.partitions for topic in request.topics):
        return DescribeQuorumResponse(error_code=ErrorCode.INVALID_REQUEST, topics=[])
    topics = [
        DescribeQuorumResponseTopicData(
            topic_name=topic.topic_name,
            partitions=[
                _partition(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, partition.partition_index)
                for partition in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return DescribeQuorumResponse(error_message=None, topics=topics)


def _response(
    partition: DescribeQuorumResponsePartitionData, nodes: list[Node]
) -> DescribeQuorumResponse:
    topic = DescribeQuorumResponseTopicData(topic_name=TOPIC, partitions=[partition])
    return DescribeQuorumResponse(error_message=None, topics=[topic], nodes=nodes)


def _partition(error: ErrorCode, index: int = PARTITION) -> DescribeQuorumResponsePartitionData:
    return DescribeQuorumResponsePartitionData(
        partition_index=index,
        error_code=error,
        error_message=None,
        leader_id=NO_NODE,
        leader_epoch=NO_LEADER_EPOCH,
        high_watermark=NO_OFFSET,
        current_voters=[],
        observers=[],
    )


def _described(status: QuorumStatus, version: int) -> DescribeQuorumResponsePartitionData:
    return DescribeQuorumResponsePartitionData(
        partition_index=PARTITION,
        error_message=None,
        leader_id=status.node_id,
        leader_epoch=status.epoch,
        high_watermark=status.high_watermark,
        current_voters=[_replica(voter, version) for voter in status.voters],
        observers=[_replica(observer, version) for observer in status.observers],
    )


def _replica(replica: ReplicaStatus, version: int) -> ReplicaState:
    return ReplicaState(
        replica_id=replica.id,
        replica_directory_id=replica.directory_id if version >= VERSION_WITH_NODES else NIL_UUID,
        log_end_offset=replica.log_end_offset,
        last_fetch_timestamp=replica.last_fetch_ms,
        last_caught_up_timestamp=replica.last_caught_up_ms,
    )


def _nodes(ctx: QuorumContext) -> list[Node]:
    """Returns the voters' listeners; a static voter set has addresses, but no listener names."""
    name = ctx.node.settings.identity.listener
    return [
        Node(
            node_id=voter.id,
            listeners=[
                Listener(name=endpoint.name or name, host=endpoint.host, port=endpoint.port)
                for endpoint in voter.endpoints
            ],
        )
        for voter in ctx.node.voters
    ]
