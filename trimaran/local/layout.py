"""The layout of a local cluster: nodes, ids, ports, directories, properties files. Pure except for the search of free
ports.

Controllers have the ids 1, 2, …, brokers 11, 12, …; the files of node `controller-1` are `controller-1.properties`,
`controller-1.log` and the directory `controller-1/`.
"""

from __future__ import annotations

import contextlib
import random
import socket
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from trimaran.local.private_files import write_private
from trimaran.node.runtime.ports import HOST, reserve
from trimaran.wire.identity import NodeId

STOP_SECONDS_MAX = 15.0  # a broker's controlled shutdown takes well under a second; after this time the node is killed
STOP_ORDER = ("console", "broker", "mirror", "controller", "zookeeper")
ROLES = frozenset(STOP_ORDER)
CONTROLLER_LISTENER = "CONTROLLER"
FIRST_CONTROLLER_ID, FIRST_BROKER_ID = NodeId(1), NodeId(11)
# Below the kernel's range for outgoing connections, so that the port of a killed node stays free.
FREE_PORTS = range(20000, 32000)
FIXED_PORTS = {"broker": 9092, "controller": 9093, "zookeeper": 2181, "console": 8090}
# The first port of each role; each further node has the next one. The port of brokers is the usual one of JMX
# exporters.
FIXED_METRICS_PORTS = {"broker": 9404, "controller": 9604, "mirror": 9804}
SUPERVISOR_LOG = "supervisor.log"
CONTROL_LOG = "control.log"  # the log of the process that serves faults on demand
_BACKSLASH, _BLANK, _DELETE = ord("\\"), ord(" "), 0x7F
NODES_MAX = 10  # the ids of controllers are below those of brokers


@dataclass(frozen=True, slots=True)
class NodePlan:
    """One node of a local cluster. `id` is None for ZooKeeper, its mirror and the console.

    `metrics_port` is None if no metrics are served.
    """

    name: str
    role: str
    id: NodeId | None
    port: int | None
    directory: Path
    metrics_port: int | None = None

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}" if self.port is not None else "-"

    @property
    def metrics_address(self) -> str:
        return f"{HOST}:{self.metrics_port}" if self.metrics_port is not None else "-"

    @property
    def properties_file(self) -> Path:
        return self.directory.with_suffix(".properties")

    @property
    def log_file(self) -> Path:
        return self.directory.with_suffix(".log")


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """A whole local cluster. `settings` go into every node's properties file, after our own keys.

    `static_quorum`: the voters are in the configuration (kraft.version 0), not in the log (1).
    """

    data: Path
    cluster_id: str
    nodes: tuple[NodePlan, ...]
    settings: dict[str, str] = field(default_factory=dict)
    static_quorum: bool = False

    def of_role(self, role: str) -> list[NodePlan]:
        return [node for node in self.nodes if node.role == role]

    def addresses(self, role: str) -> str:
        """Returns `host:port,…` of all nodes in a role; empty if there are none."""
        return ",".join(node.address for node in self.of_role(role))


def plan_cluster(
    data: Path,
    cluster_id: str,
    *,
    controllers: int,
    brokers: int,
    zookeeper: bool,
    ports: Iterator[int] | None,
    settings: dict[str, str],
    static_quorum: bool = False,
) -> ClusterPlan:
    """Chooses ids, ports and directories of a new cluster; the ports are the fixed ones unless others are given."""
    nodes = [_server("controller", data, i, FIRST_CONTROLLER_ID, ports) for i in range(controllers)]
    nodes += [broker_node(data, i, ports) for i in range(brokers)]
    if zookeeper:
        nodes += zookeeper_nodes(data, ports)
    return ClusterPlan(data, cluster_id, tuple(nodes), settings, static_quorum)


def broker_node(data: Path, index: int, ports: Iterator[int] | None) -> NodePlan:
    """Returns the plan of the broker that comes after `index` other brokers."""
    return _server("broker", data, index, FIRST_BROKER_ID, ports)


def zookeeper_nodes(data: Path, ports: Iterator[int] | None) -> list[NodePlan]:
    """Returns the plans of a ZooKeeper and its mirror."""
    port = FIXED_PORTS["zookeeper"] if ports is None else next(ports)
    return [
        NodePlan("zookeeper", "zookeeper", None, port, data / "zookeeper"),
        NodePlan("mirror", "mirror", None, None, data / "mirror"),
    ]


def _server(
    role: str, data: Path, index: int, first_id: NodeId, ports: Iterator[int] | None
) -> NodePlan:
    port = FIXED_PORTS[role] + 1000 * index if ports is None else next(ports)
    name = f"{role}-{first_id + index}"
    return NodePlan(name, role, NodeId(first_id + index), port, data / name)


def with_metrics(plan: ClusterPlan, ports: Iterator[int] | None) -> ClusterPlan:
    """Chooses a port for the metrics of each controller and broker that has none; the fixed ones unless others are
    given.
    """
    seen: Counter[str] = Counter()

    def served(node: NodePlan) -> NodePlan:
        if node.role not in FIXED_METRICS_PORTS:
            return node
        fixed = FIXED_METRICS_PORTS[node.role] + seen[node.role]
        seen[node.role] += 1
        if node.metrics_port is not None:
            return node
        return replace(node, metrics_port=fixed if ports is None else next(ports))

    return replace(plan, nodes=tuple(served(node) for node in plan.nodes))


def with_console(plan: ClusterPlan, ports: Iterator[int] | None) -> ClusterPlan:
    """Adds a console, if there is none."""
    if plan.of_role("console"):
        return plan
    port = FIXED_PORTS["console"] if ports is None else next(ports)
    console = NodePlan("console", "console", None, port, plan.data / "console")
    return replace(plan, nodes=(*plan.nodes, console))


class FreePorts:
    """Yields free ports, each once; until `close` the kernel gives them to no other process, even if no node listens
    there.
    """

    def __init__(self) -> None:
        self._held: list[socket.socket] = []

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> int:
        while True:
            port = random.choice(FREE_PORTS)
            with contextlib.suppress(OSError):
                self._held.append(reserve(port))
                return port

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def descriptors(self) -> list[int]:
        """Returns the sockets that reserve the ports; the nodes do not use these."""
        return [sock.fileno() for sock in self._held]

    def close(self) -> None:
        """Closes our end; a process that was forked meanwhile keeps its own."""
        for sock in self._held:
            sock.close()


def properties_of(plan: ClusterPlan, node: NodePlan) -> dict[str, str]:
    """Returns the properties of one controller or broker; Apache Kafka can start from the same file."""
    voters = ",".join(f"{n.id}@{n.address}" for n in plan.of_role("controller"))
    quorum = (
        {"controller.quorum.voters": voters}
        if plan.static_quorum
        else {"controller.quorum.bootstrap.servers": plan.addresses("controller")}
    )
    replication = str(min(3, max(1, len(plan.of_role("broker")))))
    listener = CONTROLLER_LISTENER if node.role == "controller" else "PLAINTEXT"
    keys = {
        "process.roles": node.role,
        "node.id": str(node.id),
        **quorum,
        "controller.listener.names": CONTROLLER_LISTENER,
        "listeners": f"{listener}://{node.address}",
        "advertised.listeners": f"{listener}://{node.address}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "log.dirs": str(node.directory),
        "trimaran.log.format": "text",
        "default.replication.factor": replication,
        "offsets.topic.replication.factor": replication,
        "transaction.state.log.replication.factor": replication,
        "share.coordinator.state.topic.replication.factor": replication,
    }
    if node.metrics_port is not None:
        keys["trimaran.metrics.listener"] = node.metrics_address
    if node.role == "broker":
        keys["inter.broker.listener.name"] = "PLAINTEXT"
        # Kafka waits three seconds for further members of a new group; a test has one member.
        keys["group.initial.rebalance.delay.ms"] = "0"
        if zookeepers := plan.addresses("zookeeper"):
            keys["zookeeper.connect"] = zookeepers
    return keys | plan.settings


def escaped(value: str) -> str:
    """Returns a text for a properties file, in ASCII, since Java reads those files as Latin-1 and we as UTF-8."""
    units = value.encode("utf-16-be", "surrogatepass")
    codes = [int.from_bytes(units[i : i + 2]) for i in range(0, len(units), 2)]
    text = "".join(
        "\\\\"
        if code == _BACKSLASH
        else chr(code)
        if _BLANK <= code < _DELETE
        else f"\\u{code:04x}"
        for code in codes
    )
    return f"\\{text}" if text.startswith(" ") else text


def write_properties(plan: ClusterPlan, node: NodePlan) -> None:
    """Writes the node's properties file."""
    lines = [f"{key}={escaped(value)}" for key, value in properties_of(plan, node).items()]
    text = "\n".join([f"# {node.name} of cluster {plan.cluster_id}", *lines, ""])
    write_private(node.properties_file, text)
