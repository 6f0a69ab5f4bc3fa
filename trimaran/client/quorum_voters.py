"""Voters of the quorum: one is added or removed at a time (KIP-853); registrations of lost controllers (KIP-1312)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from trimaran.client import features
from trimaran.errors.refused import Needs, check
from trimaran.wire.client.destinations import ControllerNode
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import NodeId
from trimaran.wire.messages.add_raft_voter import AddRaftVoterRequest, Listener
from trimaran.wire.messages.describe_cluster import CONTROLLERS, DescribeClusterRequest
from trimaran.wire.messages.describe_quorum import DescribeQuorumResponsePartitionData
from trimaran.wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from trimaran.wire.messages.unregister_controller import UnregisterControllerRequest

if TYPE_CHECKING:
    from trimaran.wire.blocking import BlockingClient
    from trimaran.wire.schema import Message

# The timeout in the request; the leader gives up after two seconds by itself.
TIMEOUT_MS = 10_000


class VoterListener(NamedTuple):
    """A listener of a voter, as its peers reach it."""

    name: str
    host: str
    port: int


def add_voter(
    client: BlockingClient,
    cluster_id: str,
    node_id: NodeId,
    directory_id: bytes,
    listeners: Iterable[VoterListener],
) -> None:
    """Makes a running controller that has caught up a voter. Raises KafkaError."""
    request = AddRaftVoterRequest(
        cluster_id=cluster_id,
        timeout_ms=TIMEOUT_MS,
        voter_id=node_id,
        voter_directory_id=directory_id,
        listeners=[Listener(name=name, host=host, port=port) for name, host, port in listeners],
    )
    _ask(client, request)


def remove_voter(client: BlockingClient, node_id: NodeId, directory_id: bytes) -> None:
    """Makes a voter an observer. Raises KafkaError."""
    request = RemoveRaftVoterRequest(
        cluster_id=None, voter_id=node_id, voter_directory_id=directory_id
    )
    _ask(client, request)


def ensure_addable(
    client: BlockingClient,
    quorum: DescribeQuorumResponsePartitionData,
    cluster_id: str,
    node_id: NodeId,
    directory_id: bytes,
) -> None:
    """Raises KafkaError, as `add_voter` would for the same node, from what the leader describes. Only the leader itself
    checks the node's listeners and versions.
    """
    if _described_cluster(client).cluster_id != cluster_id:
        raise KafkaError(
            ErrorCode.INCONSISTENT_CLUSTER_ID, f"the node is formatted for cluster {cluster_id}"
        )
    _check_dynamic(client)
    if any(voter.replica_id == node_id for voter in quorum.current_voters):
        raise KafkaError(ErrorCode.DUPLICATE_VOTER, f"node {node_id} is a voter already")
    if not any(
        observer.replica_id == node_id
        and observer.replica_directory_id == directory_id
        and observer.last_caught_up_timestamp > 0
        for observer in quorum.observers
    ):
        raise KafkaError(
            ErrorCode.REQUEST_TIMED_OUT,
            f"node {node_id} does not follow the leader, or lags behind",
        )


def ensure_removable(
    client: BlockingClient,
    quorum: DescribeQuorumResponsePartitionData,
    node_id: NodeId,
    directory_id: bytes,
) -> None:
    """Raises KafkaError, as `remove_voter` would."""
    _described_cluster(client)  # needs ALTER on the cluster, as the removal does
    _check_dynamic(client)
    voters = [(voter.replica_id, voter.replica_directory_id) for voter in quorum.current_voters]
    if (node_id, directory_id) not in voters or len(voters) == 1:
        why = "is the last voter" if len(voters) == 1 else "is not a voter with this directory"
        raise KafkaError(ErrorCode.VOTER_NOT_FOUND, f"node {node_id} {why}")


def _check_dynamic(client: BlockingClient) -> None:
    """Raises KafkaError UNSUPPORTED_VERSION for a quorum with static voters."""
    if not features.levels_at(client, ControllerNode()).get("kraft.version"):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "the voters are static: kraft.version is 0")


def unregister(client: BlockingClient, node_id: NodeId) -> None:
    """Removes the registration of a controller. Raises KafkaError."""
    _ask(client, UnregisterControllerRequest(controller_id=node_id))


def ensure_registered(client: BlockingClient, node_id: NodeId) -> None:
    """Raises KafkaError, as `unregister` would, for a controller that is active or not registered."""
    described = _described_cluster(client)
    if node_id == described.controller_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"controller {node_id} is active")
    if node_id not in {controller.broker_id for controller in described.brokers}:
        raise KafkaError(
            ErrorCode.CONTROLLER_ID_NOT_REGISTERED, f"controller {node_id} is not registered"
        )


def _described_cluster(client: BlockingClient) -> Any:
    """Returns the active controller's description, which needs ALTER on the cluster. Raises KafkaError."""
    request = DescribeClusterRequest(
        include_cluster_authorized_operations=False, endpoint_type=CONTROLLERS
    )
    response = client.call(ControllerNode(), request)
    check(response.error_code, response.error_message)
    return response


def why_it_may_return(node_id: NodeId, quorum: DescribeQuorumResponsePartitionData) -> str:
    """Returns a sentence about a controller that is still part of the quorum, else an empty text."""
    if any(voter.replica_id == node_id for voter in quorum.current_voters):
        return (
            f"controller {node_id} is still a voter: the quorum counts it until "
            f"`trimaran quorum voters remove {node_id}`, and it registers again if it runs"
        )
    if any(observer.replica_id == node_id for observer in quorum.observers):
        return (
            f"controller {node_id} fetched from the leader a short time ago: if it still runs, it registers again; "
            "stop it first"
        )
    return ""


def _ask(client: BlockingClient, request: Message) -> None:
    response: Any = client.call(ControllerNode(), request)
    check(response.error_code, response.error_message, needs=Needs("ALTER"))
