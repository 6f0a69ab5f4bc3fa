"""Between the flat messages of the Raft core and the wire structs, which nest topics and partitions.

Shapes that name another partition, several, or none (mE10) end here with the code that Kafka answers; what passes is well-formed.
Source: Kafka's `RaftUtil`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from quorum.metadata_partition import PARTITION, TOPIC, TOPIC_ID
from quorum.raft import messages as core
from quorum.raft.types import (
    NO_DIRECTORY,
    NO_NODE,
    Endpoint,
    OffsetAndEpoch,
    Peer,
    ReplicaKey,
)
from wire.errors import ErrorCode, RemoteProtocolError
from wire.messages import (
    begin_quorum_epoch as begin,
)
from wire.messages import (
    end_quorum_epoch as end,
)
from wire.messages import (
    fetch,
    fetch_snapshot,
    vote,
)
from wire.schema import Message

P = TypeVar("P")
# The first Fetch version that says who fetches by `replica_state` instead of `replica_id`.
FETCH_REPLICA_STATE = 15


class WrongShape(Exception):
    """A request that is not about the metadata partition alone; `code` is the top-level error to answer."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


def _only(topics: list[Any]) -> Any:
    """The single partition of the single topic; by name or by id."""
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        raise WrongShape(ErrorCode.INVALID_REQUEST)
    topic, partition = topics[0], topics[0].partitions[0]
    name = (
        getattr(topic, "topic_name", None)
        or getattr(topic, "topic", None)
        or getattr(topic, "name", None)
    )
    named = name == TOPIC if name else getattr(topic, "topic_id", None) == TOPIC_ID
    index = getattr(
        partition,
        "partition_index",
        getattr(partition, "partition", getattr(partition, "index", None)),
    )
    if not named or index != PARTITION:
        raise WrongShape(ErrorCode.INVALID_REQUEST)
    return partition


def _voter(voter_id: int, directory_id: bytes) -> ReplicaKey | None:
    return ReplicaKey(voter_id, directory_id) if voter_id >= 0 else None


def _endpoints(listed: list[Any]) -> tuple[Endpoint, ...]:
    return tuple(Endpoint(e.name, e.host, e.port) for e in listed)


# --- requests that arrive


def read_vote(request: vote.VoteRequest) -> core.VoteRequest:
    partition = _only(request.topics)
    return core.VoteRequest(
        cluster_id=request.cluster_id,
        epoch=partition.replica_epoch,
        candidate=ReplicaKey(partition.replica_id, partition.replica_directory_id),
        voter=_voter(request.voter_id, partition.voter_directory_id),
        last_epoch=partition.last_offset_epoch,
        end_offset=partition.last_offset,
        pre_vote=partition.pre_vote,
    )


def read_begin(request: begin.BeginQuorumEpochRequest) -> core.BeginQuorumEpochRequest:
    partition = _only(request.topics)
    return core.BeginQuorumEpochRequest(
        cluster_id=request.cluster_id,
        epoch=partition.leader_epoch,
        leader_id=partition.leader_id,
        voter=_voter(request.voter_id, partition.voter_directory_id),
        endpoints=_endpoints(request.leader_endpoints),
    )


def read_end(request: end.EndQuorumEpochRequest) -> core.EndQuorumEpochRequest:
    partition = _only(request.topics)
    successors = [
        ReplicaKey(i.candidate_id, i.candidate_directory_id) for i in partition.preferred_candidates
    ]
    return core.EndQuorumEpochRequest(
        cluster_id=request.cluster_id,
        epoch=partition.leader_epoch,
        leader_id=partition.leader_id,
        successors=tuple(successors or [ReplicaKey(i) for i in partition.preferred_successors]),
        endpoints=_endpoints(request.leader_endpoints),
    )


def read_fetch(request: fetch.FetchRequest) -> core.FetchRequest:
    partition = _only(request.topics)
    replica_id = (
        request.replica_state.replica_id if request.replica_id == NO_NODE else request.replica_id
    )
    return core.FetchRequest(
        cluster_id=request.cluster_id,
        epoch=partition.current_leader_epoch,
        replica=ReplicaKey(replica_id, partition.replica_directory_id),
        fetch_offset=partition.fetch_offset,
        last_fetched_epoch=partition.last_fetched_epoch,
        high_watermark=partition.high_watermark,
        max_wait=request.max_wait_ms / 1000,
        max_bytes=request.max_bytes,
    )


def read_fetch_snapshot(request: fetch_snapshot.FetchSnapshotRequest) -> core.FetchSnapshotRequest:
    if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        raise WrongShape(ErrorCode.INVALID_REQUEST)
    topic, partition = request.topics[0], request.topics[0].partitions[0]
    if topic.name != TOPIC or partition.partition != PARTITION:
        raise WrongShape(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return core.FetchSnapshotRequest(
        cluster_id=request.cluster_id,
        epoch=partition.current_leader_epoch,
        replica=ReplicaKey(request.replica_id, partition.replica_directory_id),
        snapshot_id=OffsetAndEpoch(partition.snapshot_id.end_offset, partition.snapshot_id.epoch),
        position=partition.position,
        max_bytes=request.max_bytes,
    )


# --- requests that leave


def write_request(request: core.Request, version: int) -> Message:
    match request:
        case core.VoteRequest():
            return _write_vote(request)
        case core.BeginQuorumEpochRequest():
            return _write_begin(request)
        case core.EndQuorumEpochRequest():
            return _write_end(request)
        case core.FetchRequest():
            return _write_fetch(request, version)
        case core.FetchSnapshotRequest():
            return _write_fetch_snapshot(request)


def _write_vote(request: core.VoteRequest) -> vote.VoteRequest:
    partition = vote.VoteRequestPartitionData(
        partition_index=PARTITION,
        replica_epoch=request.epoch,
        replica_id=request.candidate.id,
        replica_directory_id=request.candidate.directory_id,
        voter_directory_id=request.voter.directory_id if request.voter else NO_DIRECTORY,
        last_offset_epoch=request.last_epoch,
        last_offset=request.end_offset,
        pre_vote=request.pre_vote,
    )
    return vote.VoteRequest(
        cluster_id=request.cluster_id,
        voter_id=request.voter.id if request.voter else NO_NODE,
        topics=[vote.VoteRequestTopicData(topic_name=TOPIC, partitions=[partition])],
    )


def _write_begin(request: core.BeginQuorumEpochRequest) -> begin.BeginQuorumEpochRequest:
    partition = begin.BeginQuorumEpochRequestPartitionData(
        partition_index=PARTITION,
        voter_directory_id=request.voter.directory_id if request.voter else NO_DIRECTORY,
        leader_id=request.leader_id,
        leader_epoch=request.epoch,
    )
    return begin.BeginQuorumEpochRequest(
        cluster_id=request.cluster_id,
        voter_id=request.voter.id if request.voter else NO_NODE,
        topics=[begin.BeginQuorumEpochRequestTopicData(topic_name=TOPIC, partitions=[partition])],
        leader_endpoints=[
            begin.LeaderEndpoint(name=e.name, host=e.host, port=e.port) for e in request.endpoints
        ],
    )


def _write_end(request: core.EndQuorumEpochRequest) -> end.EndQuorumEpochRequest:
    partition = end.EndQuorumEpochRequestPartitionData(
        partition_index=PARTITION,
        leader_id=request.leader_id,
        leader_epoch=request.epoch,
        preferred_successors=[key.id for key in request.successors],
        preferred_candidates=[
            end.ReplicaInfo(candidate_id=key.id, candidate_directory_id=key.directory_id)
            for key in request.successors
        ],
    )
    return end.EndQuorumEpochRequest(
        cluster_id=request.cluster_id,
        topics=[end.EndQuorumEpochRequestTopicData(topic_name=TOPIC, partitions=[partition])],
        leader_endpoints=[
            end.LeaderEndpoint(name=e.name, host=e.host, port=e.port) for e in request.endpoints
        ],
    )


def _write_fetch(request: core.FetchRequest, version: int) -> fetch.FetchRequest:
    partition = fetch.FetchPartition(
        partition=PARTITION,
        current_leader_epoch=request.epoch,
        fetch_offset=request.fetch_offset,
        last_fetched_epoch=request.last_fetched_epoch,
        partition_max_bytes=request.max_bytes,
        replica_directory_id=request.replica.directory_id,
        high_watermark=request.high_watermark,
    )
    message = fetch.FetchRequest(
        cluster_id=request.cluster_id,
        max_wait_ms=int(request.max_wait * 1000),
        min_bytes=0,
        max_bytes=request.max_bytes,
        topics=[fetch.FetchTopic(topic=TOPIC, topic_id=TOPIC_ID, partitions=[partition])],
    )
    if version >= FETCH_REPLICA_STATE:
        message.replica_state = fetch.ReplicaState(replica_id=request.replica.id)
    else:
        message.replica_id = request.replica.id
    return message


def _write_fetch_snapshot(
    request: core.FetchSnapshotRequest,
) -> fetch_snapshot.FetchSnapshotRequest:
    partition = fetch_snapshot.FetchSnapshotRequestPartitionSnapshot(
        partition=PARTITION,
        current_leader_epoch=request.epoch,
        snapshot_id=fetch_snapshot.FetchSnapshotRequestSnapshotId(
            end_offset=request.snapshot_id.offset, epoch=request.snapshot_id.epoch
        ),
        position=request.position,
        replica_directory_id=request.replica.directory_id,
    )
    return fetch_snapshot.FetchSnapshotRequest(
        cluster_id=request.cluster_id,
        replica_id=request.replica.id,
        max_bytes=request.max_bytes,
        topics=[
            fetch_snapshot.FetchSnapshotRequestTopicSnapshot(name=TOPIC, partitions=[partition])
        ],
    )


# --- answers that arrive


def read_answer(response: Message) -> core.AnyAnswer:
    """What the core makes of a response.

    Raises:
        RemoteProtocolError: it is not about the metadata partition.
    """
    if type(response) not in _ANSWERS:
        raise RemoteProtocolError(f"{type(response).__name__} is no answer to a quorum request")
    cls, fields = _ANSWERS[type(response)]
    return cast(core.AnyAnswer, _read_answer(response, cls, fields))


def _read_answer(response: Any, cls: Any, fields: Any) -> Any:
    if response.error_code:
        return cls(error=response.error_code)
    topics = response.responses if isinstance(response, fetch.FetchResponse) else response.topics
    try:
        partition = _only(topics)
    except WrongShape:
        raise RemoteProtocolError(f"{type(response).__name__} is not about {TOPIC}") from None
    leader = getattr(partition, "current_leader", partition)
    return cls(
        error=partition.error_code,
        epoch=leader.leader_epoch,
        leader_id=leader.leader_id,
        leader=_leader_endpoint(response.node_endpoints, leader.leader_id),
        **fields(partition),
    )


def _leader_endpoint(listed: list[Any], leader_id: int) -> Peer | None:
    for node in listed:
        if node.node_id == leader_id and leader_id >= 0:
            return Peer(leader_id, node.host, node.port)
    return None


def _no_fields(_partition: Any) -> dict[str, Any]:
    return {}


def _vote_fields(partition: Any) -> dict[str, Any]:
    return {"granted": partition.vote_granted}


def _fetch_fields(partition: Any) -> dict[str, Any]:
    diverging, snapshot = partition.diverging_epoch, partition.snapshot_id
    is_snapshot = snapshot.end_offset >= 0 and snapshot.epoch >= 0
    is_diverging = diverging.epoch >= 0 and diverging.end_offset >= 0
    return {
        "high_watermark": partition.high_watermark,
        "log_start_offset": partition.log_start_offset,
        "diverging": OffsetAndEpoch(diverging.end_offset, diverging.epoch)
        if is_diverging
        else None,
        "snapshot_id": OffsetAndEpoch(snapshot.end_offset, snapshot.epoch) if is_snapshot else None,
        "records": partition.records or b"",
    }


def _snapshot_fields(partition: Any) -> dict[str, Any]:
    return {
        "snapshot_id": OffsetAndEpoch(
            partition.snapshot_id.end_offset, partition.snapshot_id.epoch
        ),
        "size": partition.size,
        "position": partition.position,
        "data": partition.unaligned_records or b"",
    }


_ANSWERS: dict[type[Message], tuple[type[core.Answer], Callable[[Any], dict[str, Any]]]] = {
    vote.VoteResponse: (core.VoteAnswer, _vote_fields),
    begin.BeginQuorumEpochResponse: (core.BeginQuorumEpochAnswer, _no_fields),
    end.EndQuorumEpochResponse: (core.EndQuorumEpochAnswer, _no_fields),
    fetch.FetchResponse: (core.FetchAnswer, _fetch_fields),
    fetch_snapshot.FetchSnapshotResponse: (core.FetchSnapshotAnswer, _snapshot_fields),
}

# --- answers that leave

# Errors that Kafka puts at the top of an answer, without a partition.
_TOP_LEVEL = (ErrorCode.INCONSISTENT_CLUSTER_ID,)


def write_vote_answer(answer: core.VoteAnswer, version: int) -> vote.VoteResponse:
    if answer.error in _TOP_LEVEL:
        return vote.VoteResponse(error_code=answer.error, topics=[])
    partition = vote.VoteResponsePartitionData(
        partition_index=PARTITION,
        error_code=answer.error,
        leader_id=answer.leader_id,
        leader_epoch=answer.epoch,
        vote_granted=answer.granted,
    )
    return vote.VoteResponse(
        topics=[vote.VoteResponseTopicData(topic_name=TOPIC, partitions=[partition])],
        node_endpoints=_nodes(vote.NodeEndpoint, answer, version),
    )


def write_begin_answer(
    answer: core.BeginQuorumEpochAnswer, version: int
) -> begin.BeginQuorumEpochResponse:
    if answer.error in _TOP_LEVEL:
        return begin.BeginQuorumEpochResponse(error_code=answer.error, topics=[])
    partition = begin.BeginQuorumEpochResponsePartitionData(
        partition_index=PARTITION,
        error_code=answer.error,
        leader_id=answer.leader_id,
        leader_epoch=answer.epoch,
    )
    return begin.BeginQuorumEpochResponse(
        topics=[begin.BeginQuorumEpochResponseTopicData(topic_name=TOPIC, partitions=[partition])],
        node_endpoints=_nodes(begin.NodeEndpoint, answer, version),
    )


def write_end_answer(answer: core.EndQuorumEpochAnswer, version: int) -> end.EndQuorumEpochResponse:
    if answer.error in _TOP_LEVEL:
        return end.EndQuorumEpochResponse(error_code=answer.error, topics=[])
    partition = end.EndQuorumEpochResponsePartitionData(
        partition_index=PARTITION,
        error_code=answer.error,
        leader_id=answer.leader_id,
        leader_epoch=answer.epoch,
    )
    return end.EndQuorumEpochResponse(
        topics=[end.EndQuorumEpochResponseTopicData(topic_name=TOPIC, partitions=[partition])],
        node_endpoints=_nodes(end.NodeEndpoint, answer, version),
    )


def write_fetch_answer(answer: core.FetchAnswer, version: int) -> fetch.FetchResponse:
    if answer.error in _TOP_LEVEL:
        return fetch.FetchResponse(error_code=answer.error, responses=[])
    partition = fetch.PartitionData(
        partition_index=PARTITION,
        error_code=answer.error,
        high_watermark=answer.high_watermark,
        log_start_offset=answer.log_start_offset,
        current_leader=fetch.LeaderIdAndEpoch(
            leader_id=answer.leader_id, leader_epoch=answer.epoch
        ),
        aborted_transactions=None,
        records=answer.records,
    )
    if answer.diverging is not None:
        epoch, offset = answer.diverging.epoch, answer.diverging.offset
        partition.diverging_epoch = fetch.EpochEndOffset(epoch=epoch, end_offset=offset)
    if answer.snapshot_id is not None:
        offset, epoch = answer.snapshot_id
        partition.snapshot_id = fetch.SnapshotId(end_offset=offset, epoch=epoch)
    topic = fetch.FetchableTopicResponse(topic=TOPIC, topic_id=TOPIC_ID, partitions=[partition])
    return fetch.FetchResponse(
        responses=[topic], node_endpoints=_nodes(fetch.NodeEndpoint, answer, version)
    )


def write_snapshot_answer(
    answer: core.FetchSnapshotAnswer, version: int
) -> fetch_snapshot.FetchSnapshotResponse:
    if answer.error in _TOP_LEVEL:
        return fetch_snapshot.FetchSnapshotResponse(error_code=answer.error, topics=[])
    offset, epoch = answer.snapshot_id or (-1, -1)
    partition = fetch_snapshot.FetchSnapshotResponsePartitionSnapshot(
        index=PARTITION,
        error_code=answer.error,
        snapshot_id=fetch_snapshot.FetchSnapshotResponseSnapshotId(end_offset=offset, epoch=epoch),
        current_leader=fetch_snapshot.LeaderIdAndEpoch(
            leader_id=answer.leader_id, leader_epoch=answer.epoch
        ),
        size=answer.size,
        position=answer.position,
        unaligned_records=answer.data,
    )
    topic = fetch_snapshot.FetchSnapshotResponseTopicSnapshot(name=TOPIC, partitions=[partition])
    endpoints = _nodes(fetch_snapshot.NodeEndpoint, answer, version)
    return fetch_snapshot.FetchSnapshotResponse(topics=[topic], node_endpoints=endpoints)


# The first versions of answers that say where the leader is reached.
_WITH_ENDPOINTS = {
    vote.NodeEndpoint: 1,
    begin.NodeEndpoint: 1,
    end.NodeEndpoint: 1,
    fetch.NodeEndpoint: 17,
    fetch_snapshot.NodeEndpoint: 1,
}


def _nodes(cls: type[P], answer: core.Answer, version: int) -> list[P]:
    leader = answer.leader
    if leader is None or leader.id < 0 or version < _WITH_ENDPOINTS[cast(Any, cls)]:
        return []
    make = cast(Any, cls)
    return [make(node_id=leader.id, host=leader.host, port=leader.port)]
