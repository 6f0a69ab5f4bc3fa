"""Conversion of messages about voters (KIP-853), which name no partition, and of the query for a node's versions."""

from __future__ import annotations

from typing import Any

from trimaran.quorum.raft import messages as core
from trimaran.quorum.raft.types import NO_DIRECTORY, Peer, ReplicaKey, VoterEndpoint
from trimaran.quorum.translate.shape import endpoints_of, voter_key
from trimaran.wire.client.conversation import SOFTWARE_NAME, SOFTWARE_VERSION
from trimaran.wire.errors import RemoteProtocolError, cut_message
from trimaran.wire.identity import NO_NODE, LeaderEpoch
from trimaran.wire.messages import add_raft_voter as add
from trimaran.wire.messages import api_versions
from trimaran.wire.messages import remove_raft_voter as remove
from trimaran.wire.messages import update_raft_voter as update
from trimaran.wire.schema import Message

KRAFT_VERSION = "kraft.version"
# The timeout that a joining node writes; the leader has its own limit.
JOIN_TIMEOUT_MS = 2000

# --- requests


def read_add(request: add.AddRaftVoterRequest) -> core.AddVoterRequest:
    return core.AddVoterRequest(
        cluster_id=request.cluster_id,
        voter=voter_key(request.voter_id, request.voter_directory_id),
        endpoints=endpoints_of(request.listeners),
        ack_when_committed=request.ack_when_committed,
    )


def read_remove(request: remove.RemoveRaftVoterRequest) -> core.RemoveVoterRequest:
    return core.RemoveVoterRequest(
        cluster_id=request.cluster_id,
        voter=voter_key(request.voter_id, request.voter_directory_id),
    )


def read_update(request: update.UpdateRaftVoterRequest) -> core.UpdateVoterRequest:
    versions = request.kraft_version_feature
    return core.UpdateVoterRequest(
        cluster_id=request.cluster_id,
        epoch=LeaderEpoch(request.current_leader_epoch),
        voter=voter_key(request.voter_id, request.voter_directory_id),
        endpoints=endpoints_of(request.listeners),
        kraft_version_min=versions.min_supported_version,
        kraft_version_max=versions.max_supported_version,
    )


def write_add(request: core.AddVoterRequest) -> add.AddRaftVoterRequest:
    key = request.voter or ReplicaKey(NO_NODE)
    return add.AddRaftVoterRequest(
        cluster_id=request.cluster_id,
        timeout_ms=JOIN_TIMEOUT_MS,
        voter_id=key.id,
        voter_directory_id=key.directory_id,
        listeners=[_listener(add.Listener, endpoint) for endpoint in request.endpoints],
        ack_when_committed=request.ack_when_committed,
    )


def write_remove(request: core.RemoveVoterRequest) -> remove.RemoveRaftVoterRequest:
    key = request.voter or ReplicaKey(NO_NODE)
    return remove.RemoveRaftVoterRequest(
        cluster_id=request.cluster_id, voter_id=key.id, voter_directory_id=key.directory_id
    )


def write_update(request: core.UpdateVoterRequest) -> update.UpdateRaftVoterRequest:
    key = request.voter or ReplicaKey(NO_NODE, NO_DIRECTORY)
    return update.UpdateRaftVoterRequest(
        cluster_id=request.cluster_id,
        current_leader_epoch=request.epoch,
        voter_id=key.id,
        voter_directory_id=key.directory_id,
        listeners=[_listener(update.Listener, endpoint) for endpoint in request.endpoints],
        kraft_version_feature=update.KRaftVersionFeature(
            min_supported_version=request.kraft_version_min,
            max_supported_version=request.kraft_version_max,
        ),
    )


def _listener(cls: Any, endpoint: VoterEndpoint) -> Any:
    return cls(name=endpoint.name, host=endpoint.host, port=endpoint.port)


def write_api_versions() -> api_versions.ApiVersionsRequest:
    return api_versions.ApiVersionsRequest(
        client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION
    )


# --- responses


def read_response(response: Message) -> core.AnyResponse:
    """Returns the core's form of a response about voters.

    Raises:
        RemoteProtocolError: the response is not about voters.
    """
    match response:
        case add.AddRaftVoterResponse():
            return core.AddVoterResponse(error=response.error_code, message=response.error_message)
        case remove.RemoveRaftVoterResponse():
            return core.RemoveVoterResponse(
                error=response.error_code, message=response.error_message
            )
        case update.UpdateRaftVoterResponse():
            return _read_update_response(response)
        case api_versions.ApiVersionsResponse():
            ranges = {f.name: (f.min_version, f.max_version) for f in response.supported_features}
            return core.ApiVersionsResponse(
                error=response.error_code, kraft_versions=ranges.get(KRAFT_VERSION)
            )
        case _:
            raise RemoteProtocolError(f"{type(response).__name__} is no answer to a quorum request")


def _read_update_response(response: update.UpdateRaftVoterResponse) -> core.UpdateVoterResponse:
    leader = response.current_leader
    is_known = leader.leader_id >= 0 and leader.host
    return core.UpdateVoterResponse(
        error=response.error_code,
        epoch=LeaderEpoch(leader.leader_epoch),
        leader_id=leader.leader_id,
        leader=Peer(leader.leader_id, leader.host, leader.port) if is_known else None,
    )


def write_add_response(response: core.AddVoterResponse, _version: int) -> add.AddRaftVoterResponse:
    return add.AddRaftVoterResponse(error_code=response.error, error_message=_cut(response.message))


def write_remove_response(
    response: core.RemoveVoterResponse, _version: int
) -> remove.RemoveRaftVoterResponse:
    return remove.RemoveRaftVoterResponse(
        error_code=response.error, error_message=_cut(response.message)
    )


def _cut(message: str | None) -> str | None:
    return None if message is None else cut_message(message)


def write_update_response(
    response: core.UpdateVoterResponse, _version: int
) -> update.UpdateRaftVoterResponse:
    leader = response.leader or Peer(NO_NODE)
    return update.UpdateRaftVoterResponse(
        error_code=response.error,
        current_leader=update.CurrentLeader(
            leader_id=response.leader_id,
            leader_epoch=response.epoch,
            host=leader.host,
            port=leader.port,
        ),
    )
