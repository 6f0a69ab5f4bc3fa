"""The routes that a client knows: nodes, leaders of partitions, coordinators, the controller.

Everything here may be out of date; an error that shows it makes the client forget the route and request it again.
Leaders only move to newer epochs (KIP-320): a response of a node that lags behind does not restore an old leader.
Requests: see `trimaran.wire.client.calls`.
"""

from __future__ import annotations

from dataclasses import dataclass

from trimaran.wire.client.bootstrap import Bootstrap
from trimaran.wire.client.destinations import (
    AnyNode,
    Controller,
    Coordinator,
    Destination,
    Leader,
    Node,
)
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import Address
from trimaran.wire.messages.describe_cluster import DescribeClusterResponse
from trimaran.wire.messages.find_coordinator import FindCoordinatorResponse
from trimaran.wire.messages.metadata import MetadataResponse, MetadataResponseTopic

# The most topics and coordinators remembered; beyond it the oldest are forgotten and requested again.
_REMEMBERED_MAX = 10_000


@dataclass(frozen=True, slots=True)
class LeaderOf:
    """A partition's leader; `leader_id` is -1 if there is none."""

    leader_id: int
    leader_epoch: int


class Routing:
    """`of_controllers`: the bootstrap addresses are those of controllers, which serve no Metadata (KIP-919)."""

    def __init__(self, bootstrap: Bootstrap, *, of_controllers: bool = False) -> None:
        self.bootstrap = bootstrap
        self.of_controllers = of_controllers
        self.cluster_id: str | None = None
        self.controller_id = -1
        self.nodes: dict[int, Address] = {}
        self._topics: dict[str, tuple[bytes, dict[int, LeaderOf]]] = {}
        self._coordinators: dict[Coordinator, int] = {}

    def locate(self, destination: Destination) -> Address | None:
        """Returns the address of a destination; None if it must be requested first."""
        match destination:
            case AnyNode():
                return self.bootstrap.current
            case Node(node_id):
                return self.nodes.get(node_id)
            case Controller():
                return self.nodes.get(self.controller_id)
            case Leader(topic, partition):
                leader = self.leader(topic, partition)
                return self.nodes.get(leader.leader_id) if leader else None
            case Coordinator():
                return self.nodes.get(self._coordinators.get(destination, -1))

    def leader(self, topic: str, partition: int) -> LeaderOf | None:
        """The leader last heard of."""
        known = self._topics.get(topic)
        return known[1].get(partition) if known else None

    def topic_id(self, topic: str) -> bytes | None:
        known = self._topics.get(topic)
        return known[0] if known else None

    def forget(self, destination: Destination) -> None:
        """Forgets the route to `destination`, which proved wrong."""
        match destination:
            case Controller():
                self.controller_id = -1
            case Node(node_id):
                self.nodes.pop(node_id, None)
            case Leader(topic, partition):
                known = self._topics.get(topic)
                leader = known[1].get(partition) if known else None
                if known and leader:
                    known[1][partition] = LeaderOf(-1, leader.leader_epoch)
            case Coordinator():
                self._coordinators.pop(destination, None)
            case AnyNode():
                self.bootstrap.failed(self.bootstrap.current)

    def update_metadata(self, response: MetadataResponse) -> None:
        self.cluster_id = response.cluster_id
        self.controller_id = response.controller_id
        self._learn({node.node_id: Address(node.host, node.port) for node in response.brokers})
        for topic in response.topics:
            if topic.name is not None:
                self._update_topic(topic.name, topic)

    def _update_topic(self, name: str, topic: MetadataResponseTopic) -> None:
        if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            self._topics.pop(name, None)
        if topic.error_code:
            return
        before_id, before = self._topics.pop(name, (b"", {}))
        leaders = {}
        for partition in topic.partitions:
            new = LeaderOf(partition.leader_id, partition.leader_epoch)
            old = before.get(partition.partition_index)
            if old and before_id == topic.topic_id and 0 <= new.leader_epoch < old.leader_epoch:
                new = old
            leaders[partition.partition_index] = new
        self._topics[name] = (topic.topic_id, leaders)
        if len(self._topics) > _REMEMBERED_MAX:
            del self._topics[next(iter(self._topics))]

    def update_cluster(self, response: DescribeClusterResponse) -> None:
        self.cluster_id = response.cluster_id
        self.controller_id = response.controller_id
        self._learn({node.broker_id: Address(node.host, node.port) for node in response.brokers})

    def _learn(self, nodes: dict[int, Address]) -> None:
        self.nodes = nodes
        self.bootstrap.learned(nodes.values())

    def update_coordinator(self, wanted: Coordinator, response: FindCoordinatorResponse) -> None:
        """Takes an answer of version 3 or below; one with an error is ignored."""
        if response.error_code:
            return
        self.nodes[response.node_id] = Address(response.host, response.port)
        self._coordinators[wanted] = response.node_id
        if len(self._coordinators) > _REMEMBERED_MAX:
            del self._coordinators[next(iter(self._coordinators))]
