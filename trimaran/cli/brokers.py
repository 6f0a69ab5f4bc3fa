"""`brokers list`."""

from __future__ import annotations

from trimaran.cli.connect import BROKERS, Brokers
from trimaran.cli.output import Format, show_rows


def list_brokers(*, brokers: Brokers = BROKERS, output: Format = "table") -> None:
    """Lists the brokers that are registered and not fenced."""
    from wire.messages.describe_cluster import DescribeClusterRequest

    with brokers.connected() as client:
        answer = client.call(
            None, DescribeClusterRequest(include_cluster_authorized_operations=False)
        )
    rows = [
        {"id": b.broker_id, "address": f"{b.host}:{b.port}", "rack": b.rack}
        for b in sorted(answer.brokers, key=lambda b: b.broker_id)
    ]
    show_rows(rows, output, columns=["id", "address", "rack"])
