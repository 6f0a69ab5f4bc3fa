"""`brokers list`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trimaran.cli.connect import BROKERS, Brokers
from trimaran.cli.output import Format, show_rows
from trimaran.client.connect import check
from trimaran.errors import Exit

if TYPE_CHECKING:
    from wire.blocking import BlockingClient


def list_brokers(*, brokers: Brokers = BROKERS, output: Format = "table") -> int:
    """Lists all brokers that are registered, with what they lead; exit code 1 when one of them is fenced."""
    from wire.messages.describe_cluster import DescribeClusterRequest

    with brokers.connected() as client:
        request = DescribeClusterRequest(
            include_cluster_authorized_operations=False, include_fenced_brokers=True
        )
        answer = client.call(None, request)
        check(answer.error_code, answer.error_message)
        leaders, replicas = _partitions(client)
    rows = [
        {
            "id": one.broker_id,
            "address": f"{one.host}:{one.port}" if one.host else "-",
            "rack": one.rack,
            "state": "fenced" if one.is_fenced else "active",
            "leaders": leaders.get(one.broker_id, 0),
            "replicas": replicas.get(one.broker_id, 0),
        }
        for one in sorted(answer.brokers, key=lambda one: one.broker_id)
    ]
    show_rows(rows, output, columns=["id", "address", "rack", "state", "leaders", "replicas"])
    return Exit.NO if any(row["state"] == "fenced" for row in rows) else Exit.OK


def _partitions(client: BlockingClient) -> tuple[dict[int, int], dict[int, int]]:
    """By broker how many partitions it leads, and how many replicas it has."""
    leaders: dict[int, int] = {}
    replicas: dict[int, int] = {}
    for topic in client.refresh(None).topics:
        for partition in topic.partitions:
            leaders[partition.leader_id] = leaders.get(partition.leader_id, 0) + 1
            for broker in partition.replica_nodes:
                replicas[broker] = replicas.get(broker, 0) + 1
    return leaders, replicas
