"""Cuts links between the nodes of a local cluster: a fault that needs no privileges and no proxy.

The supervisor shares memory with each node that it forks, one byte for each port of this machine; the node checks it
before sending and after receiving (`wire/transport/endpoint/links.py`). So a restarted node uses the current links.
Clients can always reach every node.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Collection, Iterator
from itertools import combinations

from trimaran.errors.user_error import UserError
from trimaran.local.layout import NodePlan
from trimaran.wire.transport.endpoint.links import PORTS, obey

# Other programs, and connections of clients, do not check it.
ROLES = frozenset({"controller", "broker", "mirror"})
Main = Callable[[Callable[[], None]], None]


class Links:
    """The links between all nodes of one cluster; the supervisor keeps them."""

    def __init__(self) -> None:
        self._cut_ports: dict[str, mmap.mmap] = {}

    def obeyed(self, node: NodePlan, main: Main) -> Main:
        """Returns `main` for a forked node, with the links of this object."""
        cut_ports = self._of(node)

        def run(on_ready: Callable[[], None]) -> None:
            obey(memoryview(cut_ports))
            main(on_ready)

        return run

    def cut(self, sides: Collection[Collection[NodePlan]]) -> int:
        """Cuts the links between nodes of different sides; nodes of the same side still reach each other, and nodes
        that are on no side reach all nodes.

        Returns the number of separated pairs of nodes.

        Raises:
            UserError: see `parted`.
        """
        pairs = parted(sides)
        for one, other in pairs:
            self._set(one, other)
            self._set(other, one)
        return len(pairs)

    def heal(self) -> None:
        """Restores all links."""
        for cut_ports in self._cut_ports.values():
            cut_ports[:] = bytes(PORTS)

    def _of(self, node: NodePlan) -> mmap.mmap:
        if node.name not in self._cut_ports:
            self._cut_ports[node.name] = mmap.mmap(-1, PORTS)
        return self._cut_ports[node.name]

    def _set(self, source: NodePlan, target: NodePlan) -> None:
        if target.port is not None:
            self._of(source)[target.port] = 1


def parted(sides: Collection[Collection[NodePlan]]) -> list[tuple[NodePlan, NodePlan]]:
    """Returns the pairs of nodes that a cut between these sides would separate.

    Raises:
        UserError: there are fewer than two sides, a node is on both, or the links of a node cannot be cut.
    """
    for node in (node for side in sides for node in side):
        if node.role not in ROLES:
            raise UserError(
                f"links of {node.name} cannot be cut",
                "only those of controllers and brokers can",
                "freeze it instead: trimaran chaos pause",
            )
    pairs = [*_pairs(sides)]
    if not pairs:
        raise UserError(
            "nothing to partition",
            "fewer than two groups of nodes were given",
            "name two or more: trimaran chaos partition 1,11 2,3,12,13",
        )
    if any(one.name == other.name for one, other in pairs):
        raise UserError(
            "a node is in two groups", "a node cannot be cut off from itself", "name each node once"
        )
    return pairs


def _pairs(sides: Collection[Collection[NodePlan]]) -> Iterator[tuple[NodePlan, NodePlan]]:
    for one_side, other_side in combinations(sides, 2):
        for item in one_side:
            for other in other_side:
                yield item, other
