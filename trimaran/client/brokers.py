"""Brokers as described by the cluster: registrations, and the number of partitions that each leads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from trimaran.errors.refused import check
from trimaran.wire.identity import Address
from trimaran.wire.messages.describe_cluster import DescribeClusterRequest

if TYPE_CHECKING:
    from trimaran.wire.blocking import BlockingClient
    from trimaran.wire.messages.metadata import MetadataResponseTopic


def broker_rows(
    client: BlockingClient, topics: Iterable[MetadataResponseTopic]
) -> list[dict[str, Any]]:
    """Returns a row for each registered broker, including fenced ones, with the number of partitions of `topics` that
    it leads.
    """
    request = DescribeClusterRequest(
        include_cluster_authorized_operations=False, include_fenced_brokers=True
    )
    response = client.call(None, request)
    check(response.error_code, response.error_message)
    leaders, replicas = _counts(topics)
    return [
        {
            "id": broker.broker_id,
            "address": str(Address(broker.host, broker.port)) if broker.host else "-",
            "rack": broker.rack,
            "state": "fenced" if broker.is_fenced else "active",
            "leaders": leaders.get(broker.broker_id, 0),
            "replicas": replicas.get(broker.broker_id, 0),
        }
        for broker in sorted(response.brokers, key=lambda one: one.broker_id)
    ]


def racks_of(client: BlockingClient) -> dict[int, str | None]:
    """Returns the racks of the live brokers by id. Raises KafkaError."""
    request = DescribeClusterRequest(include_cluster_authorized_operations=False)
    response = client.call(None, request)
    check(response.error_code, response.error_message)
    return {broker.broker_id: broker.rack for broker in response.brokers}


def _counts(topics: Iterable[MetadataResponseTopic]) -> tuple[dict[int, int], dict[int, int]]:
    """Returns for each broker the number of partitions that it leads, and the number of its replicas."""
    leaders: dict[int, int] = {}
    replicas: dict[int, int] = {}
    for topic in topics:
        for partition in topic.partitions:
            leaders[partition.leader_id] = leaders.get(partition.leader_id, 0) + 1
            for broker in partition.replica_nodes:
                replicas[broker] = replicas.get(broker, 0) + 1
    return leaders, replicas
