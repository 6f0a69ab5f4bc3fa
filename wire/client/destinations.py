"""Destinations of requests."""

from __future__ import annotations

from dataclasses import dataclass

from trimaran.wire.identity import NodeId, TopicPartition


@dataclass(frozen=True, slots=True)
class AnyNode:
    """Any node that responds."""

    def __str__(self) -> str:
        return "a node"


@dataclass(frozen=True, slots=True)
class NodeWithId:
    """The node of this id."""

    node_id: NodeId

    def __str__(self) -> str:
        return f"node {self.node_id}"


@dataclass(frozen=True, slots=True)
class ControllerNode:
    """The active controller, or a broker that forwards to it."""

    def __str__(self) -> str:
        return "the active controller"


@dataclass(frozen=True, slots=True)
class LeaderNode:
    """The leader of a partition."""

    partition: TopicPartition

    def __str__(self) -> str:
        return f"the leader of {self.partition}"


@dataclass(frozen=True, slots=True)
class CoordinatorNode:
    """The coordinator of a group (`key_type` 0) or of a transactional id (1)."""

    key: str
    key_type: int = 0

    @property
    def subject(self) -> str:
        """Returns the group or the transactional id."""
        return f"transactional id {self.key}" if self.key_type else f"group {self.key}"

    def __str__(self) -> str:
        return f"the coordinator of {self.key}"


Destination = AnyNode | NodeWithId | ControllerNode | LeaderNode | CoordinatorNode
