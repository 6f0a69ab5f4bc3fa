"""The mirrored quorums, ours and Apache Kafka's, each with three controllers and two brokers."""

from __future__ import annotations

import json
import os
import signal
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.processes import LocalCluster, trimaran, until
from tests.interop import apache_kafka

# ACLs are part of the mirrored metadata, but every user may do everything.
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
# The heap of each node, enough for 750 partitions; five nodes and the mirrors share one machine.
KAFKA_HEAP = "256m"


class Quorum(ABC):
    """A quorum: its addresses, and actions on its leader. `properties` are the settings of clients and mirrors. If
    these enable it, secrets are mirrored, by ZooKeeper's user `zookeeper_user`.
    """

    bootstrap: str
    controllers: str
    brokers: frozenset[int]
    properties: Mapping[str, str] = {}
    zookeeper_user = ""

    def leader(self, config: Path) -> int:
        """Waits for an active controller; returns its id. `config` is the file with the properties."""
        words = ("-B", self.controllers, "--command-config", config, "-o", "json")

        def ask() -> int | None:
            done = trimaran("quorum", "status", *words, check=False)
            found = json.loads(done.stdout)["leader_id"] if done.returncode == 0 else -1
            return found if found >= 0 else None

        return until(ask, "an active controller", 60.0)

    @abstractmethod
    def kill(self, controller: int) -> None:
        """Kills a node with SIGKILL."""

    @abstractmethod
    def restart(self, controller: int) -> None:
        """Starts a node without waiting for it."""

    @abstractmethod
    def pid(self, controller: int) -> int: ...

    def freeze(self, controller: int) -> None:
        os.kill(self.pid(controller), signal.SIGSTOP)

    def thaw(self, controller: int) -> None:
        os.kill(self.pid(controller), signal.SIGCONT)


class Ours(Quorum):
    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self.bootstrap, self.controllers = cluster.bootstrap, cluster.controllers
        self.brokers = frozenset(cluster.brokers())

    def kill(self, controller: int) -> None:
        self._cluster.kill(controller)

    def restart(self, controller: int) -> None:
        self._cluster.restart(controller)

    def pid(self, controller: int) -> int:
        return int(self._cluster.node(controller).pid)


class Kafkas(Quorum):
    def __init__(self, cluster: apache_kafka.ApacheKafka) -> None:
        self._cluster = cluster
        self.bootstrap, self.controllers = cluster.bootstrap, cluster.controller_bootstrap
        self.brokers = frozenset(node.id for node in cluster.brokers)

    def _node(self, controller: int) -> apache_kafka.Node:
        return next(node for node in self._cluster.controllers if node.id == controller)

    def kill(self, controller: int) -> None:
        self._cluster.kill(self._node(controller))

    def restart(self, controller: int) -> None:
        self._cluster.start_node(self._node(controller))

    def pid(self, controller: int) -> int:
        process = self._node(controller).process
        assert process is not None
        return process.pid


@contextmanager
def ours(folder: Path) -> Iterator[Quorum]:
    overrides = [w for k, v in SETTINGS.items() for w in ("--override", f"{k}={v}")]
    with LocalCluster(folder / "ours", "--brokers", "2", *overrides) as cluster:
        yield Ours(cluster)


@contextmanager
def kafkas(folder: Path) -> Iterator[Quorum]:
    with apache_kafka.running(
        folder / "kafka", controllers=3, brokers=2, settings=SETTINGS, heap=KAFKA_HEAP
    ) as cluster:
        yield Kafkas(cluster)
