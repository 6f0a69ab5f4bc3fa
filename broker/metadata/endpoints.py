"""The endpoints of brokers on a listener, and the current leaders for clients that contacted the wrong broker
(KIP-951).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from trimaran.quorum.metadata.image import BrokerRegistration, ClusterImage
from trimaran.wire.identity import BrokerId
from trimaran.wire.messages import fetch, produce, share_acknowledge, share_fetch
from trimaran.wire.text.endpoint import Endpoint

Leader = (
    fetch.LeaderIdAndEpoch
    | produce.LeaderIdAndEpoch
    | share_acknowledge.LeaderIdAndEpoch
    | share_fetch.LeaderIdAndEpoch
)
Node = TypeVar(
    "Node",
    fetch.NodeEndpoint,
    produce.NodeEndpoint,
    share_acknowledge.NodeEndpoint,
    share_fetch.NodeEndpoint,
)


def endpoint_of(broker: BrokerRegistration, listener: str) -> Endpoint | None:
    """Returns the broker's endpoint on the named listener."""
    for endpoint in broker.listeners:
        if endpoint.name == listener:
            return endpoint
    return None


def leader_endpoints(
    node: type[Node], leaders: Iterable[Leader], cluster: ClusterImage, listener: str
) -> list[Node]:
    """Returns the endpoints of the leaders in a response, each once; `node` is the class of the entries in its
    message.
    """
    found = []
    for node_id in {BrokerId(leader.leader_id) for leader in leaders if leader.leader_id >= 0}:
        broker = cluster.brokers.get(node_id)
        endpoint = None if broker is None else endpoint_of(broker, listener)
        if broker is not None and endpoint is not None:
            found.append(
                node(node_id=node_id, host=endpoint.host, port=endpoint.port, rack=broker.rack)
            )
    return found
