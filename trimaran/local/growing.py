"""Additions to a local cluster: further brokers, a ZooKeeper with the mirror, a console."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, Self

from trimaran.errors.user_error import Exit, UserError
from trimaran.local.formatting import format_nodes, write_all_properties
from trimaran.local.layout import (
    NODES_MAX,
    ClusterPlan,
    FreePorts,
    NodePlan,
    broker_node,
    with_console,
    with_metrics,
    zookeeper_nodes,
)

BROKERS_MAX = NODES_MAX * 10


@dataclass(frozen=True, slots=True)
class Growth:
    """The wanted cluster: the total number of `brokers`, None for the existing number. Sent to a supervisor as JSON."""

    brokers: int | None = None
    zookeeper: bool = False
    console: bool = False
    fixed_ports: bool = False

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of(cls, request: dict[str, Any]) -> Self:
        """Parses a growth. Raises TypeError if it is invalid."""
        return cls(**request)


def grow(plan: ClusterPlan, growth: Growth, free_ports: FreePorts) -> ClusterPlan:
    """Returns the cluster with its additions; `prepare` writes it.

    Raises:
        UserError: there are more brokers already, or there would be too many.
    """
    ports = None if growth.fixed_ports else free_ports
    grown = _with_brokers(plan, growth.brokers, ports)
    if growth.zookeeper and not plan.of_role("zookeeper"):
        grown = replace(grown, nodes=(*grown.nodes, *zookeeper_nodes(plan.data, ports)))
    if any(node.metrics_port is not None for node in plan.nodes):
        grown = with_metrics(grown, ports)
    return with_console(grown, ports) if growth.console else grown


def prepare(plan: ClusterPlan, grown: ClusterPlan) -> None:
    """Writes the properties files of a cluster that has grown, and formats its new nodes. Old nodes read their new
    properties at their next start.
    """
    new = [node for node in added(plan, grown) if node.role != "console"]
    if new:
        write_all_properties(grown)
        format_nodes(grown, new)


def added(plan: ClusterPlan, grown: ClusterPlan) -> list[NodePlan]:
    """Returns the nodes that only the second cluster has."""
    old = {node.name for node in plan.nodes}
    return [node for node in grown.nodes if node.name not in old]


def ensure_brokers_grow(plan: ClusterPlan, wanted: int | None) -> None:
    """Raises UserError if there are more already, or there would be too many."""
    found = len(plan.of_role("broker"))
    if wanted is not None and wanted < found:
        raise UserError(
            f"the cluster in {plan.data} has {found} brokers, not {wanted}",
            "a local cluster can only grow: removing a broker would lose records",
            f"leave --brokers out, choose another --data, or trimaran purge --data {plan.data}",
            exit_code=Exit.USAGE,
        )
    if wanted is not None and wanted > BROKERS_MAX:
        raise UserError(
            f"cannot start {wanted} brokers",
            f"a local cluster has up to {BROKERS_MAX}",
            f"trimaran up --brokers {found + 1}",
            exit_code=Exit.USAGE,
        )


def _with_brokers(plan: ClusterPlan, wanted: int | None, ports: FreePorts | None) -> ClusterPlan:
    ensure_brokers_grow(plan, wanted)
    brokers = plan.of_role("broker")
    found = len(brokers)
    if wanted is None or wanted == found:
        return plan
    new = tuple(broker_node(plan.data, index, ports) for index in range(found, wanted))
    others = tuple(n for n in plan.nodes if n.role not in {"controller", "broker"})
    return replace(plan, nodes=(*plan.of_role("controller"), *brokers, *new, *others))
