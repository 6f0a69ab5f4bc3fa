"""Conversion of responses between the core's messages and the wire structs, in both directions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from trimaran.quorum.raft import messages as core
from trimaran.quorum.raft.types import OffsetAndEpoch, Peer
from trimaran.quorum.raft_log.partition import PARTITION, TOPIC, TOPIC_ID
from trimaran.quorum.translate import voters
from trimaran.quorum.translate.shape import WrongShape, only_partition
from trimaran.wire.errors import ErrorCode, RemoteProtocolError
from trimaran.wire.identity import NO_LEADER_EPOCH, NO_OFFSET, NodeId
from trimaran.wire.messages import begin_quorum_epoch as begin
from trimaran.wire.messages import end_quorum_epoch as end
from trimaran.wire.messages import fetch, fetch_snapshot, vote
from trimaran.wire.schema import Message

M = TypeVar("M", bound=Message)
P = TypeVar("P")

# --- incoming responses


def read_response(response: Message) -> core.AnyResponse:
    """Returns the core's form of a response.

    Raises:
        RemoteProtocolError: the response is not about the metadata partition.
    """
    if type(response) not in _RESPONSES:
        return voters.read_response(response)
    cls, fields = _RESPONSES[type(response)]
    read: core.AnyResponse = _read_response(response, cls, fields)
    return read


def _read_response(response: Any, cls: Any, fields: Any) -> Any:
    if response.error_code:
        return cls(error=response.error_code)
    topics = response.responses if isinstance(response, fetch.FetchResponse) else response.topics
    try:
        partition = only_partition(topics)
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


def _leader_endpoint(listed: list[Any], leader_id: NodeId) -> Peer | None:
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


_RESPONSES: dict[type[Message], tuple[type[core.Response], Callable[[Any], dict[str, Any]]]] = {
    vote.VoteResponse: (core.VoteResponse, _vote_fields),
    begin.BeginQuorumEpochResponse: (core.BeginQuorumEpochResponse, _no_fields),
    end.EndQuorumEpochResponse: (core.EndQuorumEpochResponse, _no_fields),
    fetch.FetchResponse: (core.FetchResponse, _fetch_fields),
    fetch_snapshot.FetchSnapshotResponse: (core.FetchSnapshotResponse, _snapshot_fields),
}

# --- outgoing responses

# Errors that Kafka returns at the top level of a response, without a partition.
_TOP_LEVEL = (ErrorCode.INCONSISTENT_CLUSTER_ID,)


@dataclass(frozen=True, slots=True)
class _ElectionClasses(Generic[M]):
    """The classes of the responses to Vote, BeginQuorumEpoch and EndQuorumEpoch: three schemas with the same fields."""

    response: type[M]
    topic: Any
    partition: Any
    endpoint: Any

    def build(self, response: core.Response, version: int, **fields: Any) -> M:
        make: Any = self.response
        if response.error in _TOP_LEVEL:
            return cast(M, make(error_code=response.error, topics=[]))
        partition = self.partition(
            partition_index=PARTITION,
            error_code=response.error,
            leader_id=response.leader_id,
            leader_epoch=response.epoch,
            **fields,
        )
        topic = self.topic(topic_name=TOPIC, partitions=[partition])
        endpoints = _nodes(self.endpoint, response, version)
        return cast(M, make(topics=[topic], node_endpoints=endpoints))


_VOTE = _ElectionClasses(
    vote.VoteResponse,
    vote.VoteResponseTopicData,
    vote.VoteResponsePartitionData,
    vote.NodeEndpoint,
)
_BEGIN = _ElectionClasses(
    begin.BeginQuorumEpochResponse,
    begin.BeginQuorumEpochResponseTopicData,
    begin.BeginQuorumEpochResponsePartitionData,
    begin.NodeEndpoint,
)
_END = _ElectionClasses(
    end.EndQuorumEpochResponse,
    end.EndQuorumEpochResponseTopicData,
    end.EndQuorumEpochResponsePartitionData,
    end.NodeEndpoint,
)


def write_vote_response(response: core.VoteResponse, version: int) -> vote.VoteResponse:
    return _VOTE.build(response, version, vote_granted=response.granted)


def write_begin_response(
    response: core.BeginQuorumEpochResponse, version: int
) -> begin.BeginQuorumEpochResponse:
    return _BEGIN.build(response, version)


def write_end_response(
    response: core.EndQuorumEpochResponse, version: int
) -> end.EndQuorumEpochResponse:
    return _END.build(response, version)


def write_fetch_response(response: core.FetchResponse, version: int) -> fetch.FetchResponse:
    if response.error in _TOP_LEVEL:
        return fetch.FetchResponse(error_code=response.error, responses=[])
    partition = fetch.PartitionData(
        partition_index=PARTITION,
        error_code=response.error,
        high_watermark=response.high_watermark,
        log_start_offset=response.log_start_offset,
        current_leader=fetch.LeaderIdAndEpoch(
            leader_id=response.leader_id, leader_epoch=response.epoch
        ),
        aborted_transactions=None,
        records=response.records,
    )
    if response.diverging is not None:
        epoch, offset = response.diverging.epoch, response.diverging.offset
        partition.diverging_epoch = fetch.EpochEndOffset(epoch=epoch, end_offset=offset)
    if response.snapshot_id is not None:
        offset, epoch = response.snapshot_id
        partition.snapshot_id = fetch.SnapshotId(end_offset=offset, epoch=epoch)
    topic = fetch.FetchableTopicResponse(topic=TOPIC, topic_id=TOPIC_ID, partitions=[partition])
    return fetch.FetchResponse(
        responses=[topic], node_endpoints=_nodes(fetch.NodeEndpoint, response, version)
    )


def write_snapshot_response(
    response: core.FetchSnapshotResponse, version: int
) -> fetch_snapshot.FetchSnapshotResponse:
    if response.error in _TOP_LEVEL:
        return fetch_snapshot.FetchSnapshotResponse(error_code=response.error, topics=[])
    offset, epoch = response.snapshot_id or OffsetAndEpoch(NO_OFFSET, NO_LEADER_EPOCH)
    partition = fetch_snapshot.FetchSnapshotResponsePartitionSnapshot(
        index=PARTITION,
        error_code=response.error,
        snapshot_id=fetch_snapshot.FetchSnapshotResponseSnapshotId(end_offset=offset, epoch=epoch),
        current_leader=fetch_snapshot.LeaderIdAndEpoch(
            leader_id=response.leader_id, leader_epoch=response.epoch
        ),
        size=response.size,
        position=response.position,
        unaligned_records=response.data,
    )
    topic = fetch_snapshot.FetchSnapshotResponseTopicSnapshot(name=TOPIC, partitions=[partition])
    endpoints = _nodes(fetch_snapshot.NodeEndpoint, response, version)
    return fetch_snapshot.FetchSnapshotResponse(topics=[topic], node_endpoints=endpoints)


# The first response versions that have the leader's endpoint.
_WITH_ENDPOINTS = {
    vote.NodeEndpoint: 1,
    begin.NodeEndpoint: 1,
    end.NodeEndpoint: 1,
    fetch.NodeEndpoint: 17,
    fetch_snapshot.NodeEndpoint: 1,
}


def _nodes(cls: type[P], response: core.Response, version: int) -> list[P]:
    leader = response.leader
    if leader is None or leader.id < 0 or version < _WITH_ENDPOINTS[cast(Any, cls)]:
        return []
    make = cast(Any, cls)
    return [make(node_id=leader.id, host=leader.host, port=leader.port)]
