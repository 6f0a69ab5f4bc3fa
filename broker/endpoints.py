"""Where brokers are reached on a listener, and who leads now for clients that asked the wrong broker (KIP-951)."""

from __future__ import annotations

from collections.abc import Iterable

from broker.context import Context
from quorum.metadata.image import BrokerRegistration, Endpoint
from wire.messages import fetch, produce


def endpoint_of(broker: BrokerRegistration, listener: str) -> Endpoint | None:
    """The broker's endpoint on the listener of that name."""
    for endpoint in broker.listeners:
        if endpoint.name == listener:
            return endpoint
    return None


def produce_endpoints(
    responses: Iterable[produce.TopicProduceResponse], ctx: Context, listener: str
) -> list[produce.NodeEndpoint]:
    """Endpoints of the leaders that an answer to Produce names."""
    leaders = {
        partition.current_leader.leader_id
        for topic in responses
        for partition in topic.partition_responses
        if partition.current_leader.leader_id >= 0
    }
    return [
        produce.NodeEndpoint(node_id=node_id, host=host, port=port, rack=rack)
        for node_id, host, port, rack in _addresses(leaders, ctx, listener)
    ]


def fetch_endpoints(
    responses: Iterable[fetch.FetchableTopicResponse], ctx: Context, listener: str
) -> list[fetch.NodeEndpoint]:
    """Endpoints of the leaders that an answer to Fetch names."""
    leaders = {
        partition.current_leader.leader_id
        for topic in responses
        for partition in topic.partitions
        if partition.current_leader.leader_id >= 0
    }
    return [
        fetch.NodeEndpoint(node_id=node_id, host=host, port=port, rack=rack)
        for node_id, host, port, rack in _addresses(leaders, ctx, listener)
    ]


def _addresses(
    node_ids: Iterable[int], ctx: Context, listener: str
) -> Iterable[tuple[int, str, int, str | None]]:
    brokers = ctx.metadata.image.cluster.brokers
    for node_id in node_ids:
        broker = brokers.get(node_id)
        endpoint = None if broker is None else endpoint_of(broker, listener)
        if broker is not None and endpoint is not None:
            yield node_id, endpoint.host, endpoint.port, broker.rack
