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
from trimaran.wire.identity import Address, Offset
from trimaran.wire.messages.describe_cluster import BROKERS, CONTROLLERS, DescribeClusterRequest

if TYPE_CHECKING:
    from trimaran.wire.blocking import BlockingClient
    from trimaran.wire.messages.describe_quorum import DescribeQuorumResponsePartitionData, Node

# Clocks that NTP sets differ by less than a second; a response takes some time, too.
CLOCK_SECONDS = 5.0


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
    return quorum_fields(partition), voters, [*_of_clocks(partition)]


def _of_clocks(partition: DescribeQuorumResponsePartitionData) -> Iterable[Reason]:
    if (text := clock_difference(partition)) is not None:
        yield Reason(WARNING, text, "clocks")


def cluster_id_of(client: BlockingClient, *, of_controllers: bool) -> str:
    """Returns the cluster id as reported by a controller, or by a broker."""
    request = DescribeClusterRequest(
        include_cluster_authorized_operations=False,
        endpoint_type=CONTROLLERS if of_controllers else BROKERS,
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
            f"{listener.name}://{Address(listener.host, listener.port)}"
            for listener in node.listeners
        ]
        for node in nodes
    }
    end = max((voter.log_end_offset for voter in partition.current_voters), default=Offset(0))
    now = _leaders_clock(partition)
    voters = [
        _row(voter, "leader" if voter.replica_id == partition.leader_id else "follower", end, now)
        for voter in partition.current_voters
    ]
    rows = voters + [_row(observer, "observer", end, now) for observer in partition.observers]
    return [{**row, "endpoints": listeners.get(row["id"], [])} for row in rows]


def clock_difference(partition: DescribeQuorumResponsePartitionData) -> str | None:
    """Returns a sentence if the clocks of this machine and of the leader differ, else None."""
    seconds = (_leaders_clock(partition) - now_ms()) / 1000
    if abs(seconds) < CLOCK_SECONDS:
        return None
    order = "ahead of" if seconds > 0 else "behind"
    return f"the clock of the leader, node {partition.leader_id}, is {abs(seconds):.0f} s {order} that of this machine"


def _leaders_clock(partition: DescribeQuorumResponsePartitionData) -> int:
    """Returns the leader's milliseconds since 1970 at its response, which it reports as the time at which it has caught
    up with itself. Leaders before Kafka 3.3 do not send it: then the result is this machine's time.
    """
    for voter in partition.current_voters:
        if voter.replica_id == partition.leader_id and voter.last_caught_up_timestamp >= 0:
            return int(voter.last_caught_up_timestamp)
    return now_ms()


def _row(replica: Any, role: str, end: Offset, now: int) -> dict[str, Any]:
    directory = replica.replica_directory_id
    return {
        "id": replica.replica_id,
        "role": role,
        "log_end_offset": replica.log_end_offset,
        "lag": end - replica.log_end_offset,
        "last_fetch_ms_ago": _ago(replica.last_fetch_timestamp, now),
        "last_caught_up_ms_ago": _ago(replica.last_caught_up_timestamp, now),
        "last_fetch_ms": replica.last_fetch_timestamp,
        "last_caught_up_ms": replica.last_caught_up_timestamp,
        "directory_id": None if directory == NIL_UUID else uuid_to_text(directory),
    }


def _ago(timestamp_ms: int, now: int) -> int | None:
    """Returns the milliseconds between a time in the leader's response and the response, by the leader's clock; None if
    the response has no such time.
    """
    return None if timestamp_ms < 0 else max(0, now - timestamp_ms)
