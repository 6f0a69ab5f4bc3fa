"""The quorum of controllers as reported by its leader: rows of voters and observers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from trimaran.client.health import BAD, WARNING, Reason
from trimaran.node.runtime.clock import now_ms
from trimaran.quorum.observing.description import describe_quorum_and_nodes
from trimaran.wire.buffers.primitives import NIL_UUID, uuid_to_text
from trimaran.wire.client.errors import RequestTimedOut, VersionMismatch
from trimaran.wire.errors import KafkaError
from trimaran.wire.identity import Offset
from trimaran.wire.messages.describe_cluster import CONTROLLERS, DescribeClusterRequest

if TYPE_CHECKING:
    from trimaran.wire.blocking import BlockingClient
    from trimaran.wire.messages.describe_quorum import DescribeQuorumResponsePartitionData, Node


def ask_quorum(
    client: BlockingClient, timeout: float
) -> tuple[dict[str, Any] | None, list[dict[str, Any]], list[Reason]]:
    """Returns the fields and rows of the voters as reported by the active controller through a broker, or an error."""
    try:
        partition, nodes = describe_quorum_and_nodes(client, timeout=timeout)
    except (RequestTimedOut, VersionMismatch):
        return None, [], [Reason(BAD, "no active controller answers", "quorum")]
    except KafkaError as error:
        text = f"the state of the quorum is not known: {error.code.name}"
        return None, [], [Reason(WARNING, text, "quorum")]
    if partition.error_code:
        return None, [], [Reason(BAD, "the quorum has no leader", "quorum")]
    voters = [row for row in replica_rows(partition, nodes) if row["role"] != "observer"]
    return quorum_fields(partition), voters, []


def cluster_id_of(client: BlockingClient) -> str:
    """Returns the cluster id as reported by a controller."""
    request = DescribeClusterRequest(
        include_cluster_authorized_operations=False, endpoint_type=CONTROLLERS
    )
    return str(client.call(None, request).cluster_id)


def quorum_fields(partition: DescribeQuorumResponsePartitionData) -> dict[str, Any]:
    """Returns the fields of the response about the whole quorum."""
    return {
        "leader_id": partition.leader_id,
        "leader_epoch": partition.leader_epoch,
        "high_watermark": partition.high_watermark,
    }


def replica_rows(
    partition: DescribeQuorumResponsePartitionData, nodes: Iterable[Node]
) -> list[dict[str, Any]]:
    """Returns voters, then observers; the times of contact are also in the leader's milliseconds since 1970.

    `nodes` have the listeners of voters, if the leader sends them (KIP-853).
    """
    listeners = {
        node.node_id: [
            f"{listener.name}://{listener.host}:{listener.port}" for listener in node.listeners
        ]
        for node in nodes
    }
    end = max((voter.log_end_offset for voter in partition.current_voters), default=Offset(0))
    voters = [
        _row(voter, "leader" if voter.replica_id == partition.leader_id else "follower", end)
        for voter in partition.current_voters
    ]
    rows = voters + [_row(observer, "observer", end) for observer in partition.observers]
    return [{**row, "endpoints": listeners.get(row["id"], [])} for row in rows]


def _row(replica: Any, role: str, end: Offset) -> dict[str, Any]:
    directory = replica.replica_directory_id
    return {
        "id": replica.replica_id,
        "role": role,
        "log_end_offset": replica.log_end_offset,
        "lag": end - replica.log_end_offset,
        "last_fetch_ms_ago": _ago(replica.last_fetch_timestamp),
        "last_caught_up_ms_ago": _ago(replica.last_caught_up_timestamp),
        "last_fetch_ms": replica.last_fetch_timestamp,
        "last_caught_up_ms": replica.last_caught_up_timestamp,
        "directory_id": None if directory == NIL_UUID else uuid_to_text(directory),
    }


def _ago(timestamp_ms: int) -> int | None:
    """Returns the milliseconds since a wall-clock time of the leader; None if it sent none."""
    return None if timestamp_ms < 0 else max(0, now_ms() - timestamp_ms)
