"""Who a request is meant for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AnyNode:
    """Whoever answers."""


@dataclass(frozen=True, slots=True)
class Node:
    """The node of this id."""

    node_id: int


@dataclass(frozen=True, slots=True)
class Controller:
    """The active controller, or a broker that forwards to it."""


@dataclass(frozen=True, slots=True)
class Leader:
    """The leader of a partition."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class Coordinator:
    """The coordinator of a group (`key_type` 0) or of a transactional id (1)."""

    key: str
    key_type: int = 0


Destination = AnyNode | Node | Controller | Leader | Coordinator
