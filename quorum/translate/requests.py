"""Conversion of requests between the core's messages and the wire structs, in both directions."""

from __future__ import annotations

from trimaran.quorum.raft import messages as core
from trimaran.quorum.raft.types import NO_DIRECTORY, OffsetAndEpoch, ReplicaKey
from trimaran.quorum.raft_log.partition import PARTITION, TOPIC, TOPIC_ID
from trimaran.quorum.translate import voters
from trimaran.quorum.translate.shape import WrongShape, endpoints_of, only_partition, voter_key
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import NO_NODE, LeaderEpoch, NodeId, Offset
from trimaran.wire.messages import begin_quorum_epoch as begin
from trimaran.wire.messages import end_quorum_epoch as end
from trimaran.wire.messages import fetch, fetch_snapshot, vote
from trimaran.wire.schema import Message

# The first Fetch version that identifies the fetcher by `replica_state` instead of `replica_id`.
FETCH_REPLICA_STATE = 15

# --- incoming requests


def read_vote(request: vote.VoteRequest) -> core.VoteRequest:
    partition = only_partition(request.topics)
    return core.VoteRequest(
        cluster_id=request.cluster_id,
        epoch=partition.replica_epoch,
        candidate=ReplicaKey(partition.replica_id, partition.replica_directory_id),
        voter=voter_key(request.voter_id, partition.voter_directory_id),
        last_epoch=partition.last_offset_epoch,
        end_offset=partition.last_offset,
        pre_vote=partition.pre_vote,
    )


def read_begin(request: begin.BeginQuorumEpochRequest) -> core.BeginQuorumEpochRequest:
    partition = only_partition(request.topics)
    return core.BeginQuorumEpochRequest(
        cluster_id=request.cluster_id,
        epoch=partition.leader_epoch,
        leader_id=partition.leader_id,
        voter=voter_key(request.voter_id, partition.voter_directory_id),
        endpoints=endpoints_of(request.leader_endpoints),
    )


def read_end(request: end.EndQuorumEpochRequest) -> core.EndQuorumEpochRequest:
    partition = only_partition(request.topics)
    successors = [
        ReplicaKey(i.candidate_id, i.candidate_directory_id) for i in partition.preferred_candidates
    ]
    return core.EndQuorumEpochRequest(
        cluster_id=request.cluster_id,
        epoch=partition.leader_epoch,
        leader_id=partition.leader_id,
        successors=tuple(successors or [ReplicaKey(i) for i in partition.preferred_successors]),
        endpoints=endpoints_of(request.leader_endpoints),
    )


def read_fetch(request: fetch.FetchRequest) -> core.FetchRequest:
    partition = only_partition(request.topics)
    replica_id = (
        request.replica_state.replica_id if request.replica_id == NO_NODE else request.replica_id
    )
    return core.FetchRequest(
        cluster_id=request.cluster_id,
        epoch=partition.current_leader_epoch,
        replica=ReplicaKey(NodeId(replica_id), partition.replica_directory_id),
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
        epoch=LeaderEpoch(partition.current_leader_epoch),
        replica=ReplicaKey(request.replica_id, partition.replica_directory_id),
        snapshot_id=OffsetAndEpoch(
            Offset(partition.snapshot_id.end_offset), LeaderEpoch(partition.snapshot_id.epoch)
        ),
        position=partition.position,
        max_bytes=request.max_bytes,
    )


# --- outgoing requests


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
        case core.AddVoterRequest():
            return voters.write_add(request)
        case core.RemoveVoterRequest():
            return voters.write_remove(request)
        case core.UpdateVoterRequest():
            return voters.write_update(request)
        case core.ApiVersionsRequest():
            return voters.write_api_versions()


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
