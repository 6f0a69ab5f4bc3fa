"""Apache Kafka in ZooKeeper mode, as it ran before KRaft; Maven fetches the jars into the same cache as for
`old_clients`.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.interop import old_clients
from trimaran.local.readiness import brokers_seen_by
from trimaran.node.runtime.ports import port_of, reserve

READY_SECONDS_MAX = 120.0
NO_SETTINGS: Mapping[str, str] = {}


@dataclass
class ZooKeeperMode:
    """A cluster with brokers by id, on 127.0.0.1; `java_options` go to each JVM."""

    version: str
    directory: Path
    ports: dict[int, int]
    settings: Mapping[str, str]
    java_options: Sequence[str]
    processes: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def bootstrap(self) -> str:
        return ",".join(self.address(broker) for broker in self.ports)

    def address(self, broker: int) -> str:
        return f"127.0.0.1:{self.ports[broker]}"

    def start(self, broker: int) -> None:
        file = self.directory / f"{broker}.properties"
        keys = {
            "broker.id": str(broker),
            "listeners": f"PLAINTEXT://{self.address(broker)}",
            "log.dirs": str(self.directory / f"broker-{broker}"),
            "offsets.topic.replication.factor": str(min(3, len(self.ports))),
            **self.settings,
        }
        file.write_text("".join(f"{key}={value}\n" for key, value in keys.items()))
        java, *rest = old_clients.command(self.version, "kafka.Kafka", str(file))
        with (self.directory / f"{broker}.log").open("ab") as log:
            self.processes[broker] = subprocess.Popen(
                [java, *self.java_options, *rest], stdout=log, stderr=log
            )

    def stop(self, broker: int, number: int = signal.SIGTERM) -> None:
        process = self.processes.pop(broker)
        process.send_signal(number)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def wait_ready(self) -> None:
        """Waits until every broker lists all brokers."""
        deadline = time.monotonic() + READY_SECONDS_MAX
        for broker in self.ports:
            while len(brokers_seen_by(self.address(broker))) < len(self.ports):
                assert time.monotonic() < deadline, f"not ready; logs in {self.directory}"
                time.sleep(0.1)


@contextlib.contextmanager
def running(
    version: str,
    directory: Path,
    zookeeper: str,
    brokers: Sequence[int],
    settings: Mapping[str, str] = NO_SETTINGS,
    java_options: Sequence[str] = (),
) -> Iterator[ZooKeeperMode]:
    """Starts a cluster; yields it once it is ready, and stops it on exit."""
    with contextlib.ExitStack() as held:
        ports = {broker: port_of(held.enter_context(reserve())) for broker in brokers}
    directory.mkdir(parents=True, exist_ok=True)
    keys = {"zookeeper.connect": zookeeper, **settings}
    cluster = ZooKeeperMode(version, directory, ports, keys, java_options)
    try:
        for broker in brokers:
            cluster.start(broker)
        cluster.wait_ready()
        yield cluster
    finally:
        for broker in list(cluster.processes):
            cluster.stop(broker)
