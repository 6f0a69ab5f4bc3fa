"""The routes that a client knows: nodes, leaders of partitions, coordinators, the controller.

Any route may be out of date; when an error shows that, the client forgets the route and requests it again. Leaders only
move to newer epochs (KIP-320): a response of a node that lags behind does not restore an old leader.
Requests: see `trimaran.wire.client.calls`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from trimaran.wire.client.bootstrap import Bootstrap
from trimaran.wire.client.destinations import (
    AnyNode,
    ControllerNode,
    CoordinatorNode,
    Destination,
    LeaderNode,
    NodeWithId,
)
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import NO_NODE, Address, LeaderEpoch, NodeId, TopicPartition
from trimaran.wire.messages.describe_cluster import DescribeClusterResponse
from trimaran.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from trimaran.wire.messages.metadata import MetadataResponse, MetadataResponseTopic

# The most topics and coordinators remembered; above this number the oldest ones are forgotten, and requested again when
# needed.
_REMEMBERED_MAX = 10_000


@dataclass(frozen=True, slots=True)
class LeaderOf:
    """A partition's leader; `leader_id` is `NO_NODE` if there is none."""

    leader_id: NodeId
    leader_epoch: LeaderEpoch


class _RoutedTopic(NamedTuple):
    """The known facts about a topic: its id, and its leaders by partition."""

    id: bytes
    leaders: dict[int, LeaderOf]


_NO_TOPIC = _RoutedTopic(b"", {})


class Routing:
    """The known routes. `of_controllers`: the bootstrap addresses are those of controllers, which do not serve Metadata
    (KIP-919).
    """

    def __init__(self, bootstrap: Bootstrap, *, of_controllers: bool = False) -> None:
        self.bootstrap = bootstrap
        self.of_controllers = of_controllers
        self.cluster_id: str | None = None
        self.controller_id = NO_NODE
        self.nodes: dict[NodeId, Address] = {}
        self._topics: dict[str, _RoutedTopic] = {}
        self._coordinators: dict[CoordinatorNode, NodeId] = {}

    def locate(self, destination: Destination) -> Address | None:
        """Returns the address of a destination; None if it must be requested first."""
        match destination:
            case AnyNode():
                return self.bootstrap.current
            case NodeWithId(node_id):
                return self.nodes.get(node_id)
            case ControllerNode():
                return self.nodes.get(self.controller_id)
            case LeaderNode(partition):
                leader = self.leader(partition)
                return self.nodes.get(leader.leader_id) if leader else None
            case CoordinatorNode():
                return self.nodes.get(self._coordinators.get(destination, NO_NODE))

    def leader(self, partition: TopicPartition) -> LeaderOf | None:
        """Returns the last known leader."""
        known = self._topics.get(partition.topic)
        return known.leaders.get(partition.partition) if known else None

    def topic_id(self, topic: str) -> bytes | None:
        known = self._topics.get(topic)
        return known.id if known else None

    def forget(self, destination: Destination) -> None:
        """Forgets the route to `destination`, which proved to be wrong."""
        match destination:
            case ControllerNode():
                self.controller_id = NO_NODE
            case NodeWithId(node_id):
                self.nodes.pop(node_id, None)
            case LeaderNode(partition):
                known, index = self._topics.get(partition.topic), partition.partition
                leader = known.leaders.get(index) if known else None
                if known and leader:
                    known.leaders[index] = LeaderOf(NO_NODE, leader.leader_epoch)
            case CoordinatorNode():
                self._coordinators.pop(destination, None)
            case AnyNode():
                self.bootstrap.failed(self.bootstrap.current)

    def update_metadata(self, response: MetadataResponse) -> None:
        self.cluster_id = response.cluster_id
        self.controller_id = NodeId(response.controller_id)
        self._learn(
            {NodeId(node.node_id): Address(node.host, node.port) for node in response.brokers}
        )
        for topic in response.topics:
            if topic.name is not None:
                self._update_topic(topic.name, topic)

    def _update_topic(self, name: str, topic: MetadataResponseTopic) -> None:
        if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            self._topics.pop(name, None)
        if topic.error_code:
            return
        before, leaders = self._topics.pop(name, _NO_TOPIC), dict[int, LeaderOf]()
        for partition in topic.partitions:
            new = LeaderOf(NodeId(partition.leader_id), LeaderEpoch(partition.leader_epoch))
            old = before.leaders.get(partition.partition_index)
            if old and before.id == topic.topic_id and 0 <= new.leader_epoch < old.leader_epoch:
                new = old
            leaders[partition.partition_index] = new
        self._topics[name] = _RoutedTopic(topic.topic_id, leaders)
        if len(self._topics) > _REMEMBERED_MAX:
            del self._topics[next(iter(self._topics))]

    def update_cluster(self, response: DescribeClusterResponse) -> None:
        self.cluster_id = response.cluster_id
        self.controller_id = NodeId(response.controller_id)
        self._learn(
            {NodeId(node.broker_id): Address(node.host, node.port) for node in response.brokers}
        )

    def _learn(self, nodes: dict[NodeId, Address]) -> None:
        self.nodes = nodes
        self.bootstrap.learned(nodes.values())

    def update_coordinator(
        self, wanted: CoordinatorNode, found: FindCoordinatorResponse | Coordinator
    ) -> None:
        """Updates the coordinator from a response of version 3 or below, or from an entry of a later one; an error is
        ignored.
        """
        if found.error_code:
            return
        node_id = NodeId(found.node_id)
        self.nodes[node_id] = Address(found.host, found.port)
        self._coordinators[wanted] = node_id
        if len(self._coordinators) > _REMEMBERED_MAX:
            del self._coordinators[next(iter(self._coordinators))]

    def take_coordinators(self, other: Routing) -> None:
        """Takes over the coordinators that another client of the same cluster knows."""
        self.nodes.update(other.nodes)
        self._coordinators.update(other._coordinators)
