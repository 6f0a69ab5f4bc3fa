"""A cluster of processes for tests: controllers, brokers, and optionally a ZooKeeper with the mirror. Nodes can be
broken.
"""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

from trimaran.faults.fault_set import FaultSet
from trimaran.faults.proxy import ProxySettings
from trimaran.testing.checked_settings import check_settings
from trimaran.testing.faults import FaultyKafka, KafkaFaults
from trimaran.testing.kafka import Kafka
from trimaran.testing.proxied import ProxyThread
from trimaran.wire.client.bootstrap import parse_bootstrap

START_SECONDS = 60.0
STOP_SECONDS = 60.0
LOG_LINES_SHOWN = 5


class KafkaCluster(FaultyKafka, Kafka):
    """`with KafkaCluster() as kafka:`, or `start` and `stop`; `settings` are keys of every node's server.properties.

    Short timeouts and no fsync (`trimaran.dev.mode`), unless a setting says otherwise. Brokers have the ids 11, 12, …,
    controllers 1, 2, …. `zookeeper` is its address, or None.

    With `faults` clients connect through a proxy in this process, which applies the rules of `kafka.faults`.
    """

    def __init__(
        self,
        *,
        brokers: int = 3,
        controllers: int = 3,
        zookeeper: bool = False,
        faults: bool = False,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Raises ConfigError for a key that no node knows."""
        check_settings(settings or {})
        self._options = ["--brokers", str(brokers), "--controllers", str(controllers)]
        self._options += ["--zk"] if zookeeper else []
        for key, value in {"trimaran.dev.mode": "true", **(settings or {})}.items():
            self._options += ["--override", f"{key}={value}"]
        self._directory: Path | None = None
        self._rules = FaultSet() if faults else None
        self._proxy: ProxyThread | None = None
        self.controller_bootstrap = ""
        self.zookeeper: str | None = None

    def start(self) -> Self:
        """Returns when all nodes serve and all brokers know each other.

        Raises:
            RuntimeError: it did not start; the text has the reason.
        """
        assert self._directory is None, "it runs already"
        self._directory = Path(tempfile.mkdtemp(prefix="trimaran-"))
        try:
            state = json.loads(self._run("up", "-d", "-o", "json", *self._options))
        except BaseException:
            self.stop()
            raise
        self._connect(state)
        return self

    def _connect(self, state: Mapping[str, Any]) -> None:
        """Takes the addresses of a cluster that serves, and starts the proxy, if there are faults."""
        self.bootstrap = state["bootstrap"]
        if self._rules is not None:
            settings = ProxySettings(parse_bootstrap(self.bootstrap))
            self._proxy = ProxyThread(settings, self._rules)
            self.bootstrap = self._proxy.bootstrap
        self.controller_bootstrap = state["controller_bootstrap"]
        self.zookeeper = state["zookeeper"]

    def stop(self) -> None:
        """Returns when the cluster has ended and its data is deleted; does nothing if it does not run."""
        directory = self._disconnect()
        if directory is None:
            return
        if (directory / "cluster.json").exists():
            _trimaran(directory, "down")
        shutil.rmtree(directory, ignore_errors=True)

    def _disconnect(self) -> Path | None:
        """Stops the proxy; returns the directory of the cluster, if there is one."""
        proxy, self._proxy = self._proxy, None
        if proxy is not None:
            proxy.stop()
        directory, self._directory = self._directory, None
        return directory

    @property
    def faults(self) -> KafkaFaults:
        """Returns the rules of this cluster. Raises RuntimeError: it was made without `faults=True`."""
        if self._rules is None:
            raise RuntimeError("this cluster has no faults: make it by KafkaCluster(faults=True)")
        return KafkaFaults(self._rules)

    def kill(self, node: int | str) -> None:
        """Kills a node with SIGKILL; `node` is an id, or `leader`: the active controller."""
        self._run("chaos", "kill", str(node))

    def restart(self, node: int | str) -> None:
        """Starts a node that was killed; a running node is stopped cleanly first."""
        self._run("chaos", "restart", str(node))

    def pause(self, node: int | str) -> None:
        """Freezes a node: its connections stay open, and it sends nothing."""
        self._run("chaos", "pause", str(node))

    def resume(self, node: int | str) -> None:
        """Resumes a frozen node."""
        self._run("chaos", "resume", str(node))

    def isolate(self, node: int | str) -> None:
        """Cuts a node off from all other nodes, until `heal`; clients still reach it."""
        self._run("chaos", "isolate", str(node))

    def partition(self, *sides: Iterable[int | str]) -> None:
        """Cuts the links between nodes of different sides, until `heal`: `partition([1, 11], [2, 3, 12, 13])`.

        Nodes that are on no side reach all nodes, and clients reach every node. Connections stay open, but carry no
        data. A further call adds to earlier cuts; `partition([11], [12])` cuts one link.
        """
        self._run("chaos", "partition", *(",".join(map(str, side)) for side in sides))

    def heal(self) -> None:
        """Restores all links, so that all nodes reach each other again."""
        self._run("chaos", "heal")

    def fill_disk(self, node: int) -> None:
        """Makes each later write of a node to a file fail as on a full disk, but with EFBIG instead of ENOSPC;
        `restart` ends this. Linux only.

        Raises:
            RuntimeError: no such node is running.
        """
        pids = {
            each_node["id"]: each_node["pid"]
            for each_node in self.nodes()
            if each_node["state"] != "dead"
        }
        if node not in pids:
            raise RuntimeError(f"no node {node} runs; there are {', '.join(map(str, pids))}")
        _, hard = resource.prlimit(pids[node], resource.RLIMIT_FSIZE)
        resource.prlimit(pids[node], resource.RLIMIT_FSIZE, (0, hard))

    def nodes(self) -> list[dict[str, Any]]:
        """Returns id, role, address, pid and state of each node."""
        found = _trimaran(self._at(), "ps", "-o", "json").stdout  # exit code 1: a node is dead
        listed: list[dict[str, Any]] = json.loads(found)["nodes"]
        return listed

    def diagnosis(self) -> str:
        """Returns the state of each node, and the ends of the logs of those that do not run."""
        lines = []
        for node in self.nodes():
            lines.append(f"{node['role']} {node['id']} at {node['address']}: {node['state']}")
            if node["state"] != "running":
                log = self._at() / f"{node['role']}-{node['id']}.log"
                end = log.read_text("utf-8", "replace").splitlines() if log.exists() else []
                lines += [f"  {line}" for line in end[-LOG_LINES_SHOWN:]]
        return "\n".join(lines)

    def _run(self, *words: str) -> str:
        done = _trimaran(self._at(), *words)
        if done.returncode:
            raise RuntimeError(f"trimaran {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def _at(self) -> Path:
        assert self._directory is not None, "it does not run"
        return self._directory


class RunningCluster(KafkaCluster):
    """The cluster that `trimaran up` has started in a data directory, with faults; `stop` leaves it running."""

    def __init__(self, data: Path) -> None:
        super().__init__(faults=True)
        self._data = data

    def start(self) -> Self:
        """Raises RuntimeError: there is no such cluster."""
        self._directory = self._data
        self._connect(json.loads(self._run("ps", "-o", "json")))
        return self

    def stop(self) -> None:
        """Stops only the proxy."""
        self._disconnect()


def _trimaran(directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs a command of the command line, so that a test breaks the cluster as a user would."""
    return subprocess.run(
        [sys.executable, "-m", "trimaran", *words, "--data", str(directory)],
        capture_output=True,
        text=True,
        check=False,
        timeout=START_SECONDS,
    )
