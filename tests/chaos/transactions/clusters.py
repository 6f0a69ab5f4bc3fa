"""3 + 3 real processes of ours, or of Apache Kafka 4.4, behind one interface; each broker is behind a proxy, on a small
disk.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from tests.chaos.transactions.links import Door
from tests.cluster.processes import LocalCluster, trimaran
from tests.interop import apache_kafka
from trimaran.local import control
from trimaran.wire.blocking import BlockingClient
from trimaran.wire.client.errors import ConnectionLost, RequestTimedOut
from trimaran.wire.messages.elect_leaders import ElectLeadersRequest

BROKERS = (11, 12, 13)
CONTROLLERS = (1, 2, 3)
# The size of a broker's disk, enough for a run, including the indexes that Kafka preallocates.
DISK_BYTES = 128 * 1024 * 1024
CALL_SECONDS = 60
ELECT_SECONDS = 5


class Cluster(ABC):
    """Operations on a cluster; nodes have the ids of our local clusters."""

    doors: dict[int, Door]
    has_disks: bool

    @property
    def bootstrap(self) -> str:
        return ",".join(door.address for door in self.doors.values())

    def create_topics(self, partitions: int, *names: str) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        wanted = [NewTopic(name, partitions, 3) for name in names]
        for created in admin.create_topics(wanted, operation_timeout=CALL_SECONDS).values():
            created.result()

    def elect_preferred_leaders(self) -> None:
        """Moves each leader back to its first replica; leaders stay where that is not in sync."""
        request = ElectLeadersRequest(topic_partitions=None, timeout_ms=1000 * ELECT_SECONDS)
        with BlockingClient(self.bootstrap) as client, suppress(RequestTimedOut, ConnectionLost):
            client.call(None, request, timeout=ELECT_SECONDS)

    @abstractmethod
    def kill(self, node: int) -> None:
        """Kills a node with SIGKILL; returns after it has ended."""

    @abstractmethod
    def start(self, node: int) -> None:
        """Starts a node that was killed or has ended; restarts a running one."""

    @abstractmethod
    def send(self, node: int, number: signal.Signals) -> None:
        """Sends SIGSTOP or SIGCONT to a node."""

    @abstractmethod
    def directory(self, node: int) -> Path:
        """Returns the directory with all data of a node."""


class Ours(Cluster):
    """Our local cluster, controlled by its supervisor."""

    def __init__(self, local: LocalCluster, doors: dict[int, Door], has_disks: bool) -> None:
        self._local, self.doors, self.has_disks = local, doors, has_disks

    def kill(self, node: int) -> None:
        self._ask("kill", node)

    def start(self, node: int) -> None:
        self._ask("restart", node)

    def send(self, node: int, number: signal.Signals) -> None:
        self._ask("pause" if number == signal.SIGSTOP else "resume", node)

    def directory(self, node: int) -> Path:
        return Path(self._local.node(node).dir)

    def _ask(self, command: str, node: int) -> None:
        state = self._local.state
        control.ask(state.control, command, node=self._local.node(node).name)


class Kafka(Cluster):
    """Apache Kafka, controlled by signals."""

    def __init__(
        self, kafka: apache_kafka.ApacheKafka, doors: dict[int, Door], has_disks: bool
    ) -> None:
        self._nodes = {node.id: node for node in kafka.nodes}
        self._kafka, self.doors, self.has_disks = kafka, doors, has_disks

    def kill(self, node: int) -> None:
        self._kafka.kill(self._nodes[node])

    def start(self, node: int) -> None:
        process = self._nodes[node].process
        if process is not None:
            self._kafka.kill(self._nodes[node], signal.SIGTERM)
        self._kafka.start_node(self._nodes[node])

    def send(self, node: int, number: signal.Signals) -> None:
        process = self._nodes[node].process
        assert process is not None
        process.send_signal(number)

    def directory(self, node: int) -> Path:
        return self._nodes[node].directory


@contextmanager
def ours(data: Path, *overrides: str) -> Iterator[Cluster]:
    """Runs a cluster of ours; `overrides` are KEY=VALUE for each node."""
    folders = [data / f"broker-{number}" for number in BROKERS]
    options = [word for override in overrides for word in ("--override", override)]
    with ExitStack() as stack:
        has_disks = all(stack.enter_context(small_disk(folder)) for folder in folders)
        local = stack.enter_context(LocalCluster(data, *options))
        doors = {}
        for number in BROKERS:
            node = local.node(number)
            host, _, port = node.address.rpartition(":")
            doors[number] = stack.enter_context(Door((host, int(port))))
            _advertise(Path(node.dir).with_suffix(".properties"), doors[number])
            local.restart(number)
        yield Ours(local, doors, has_disks)


@contextmanager
def kafka(data: Path) -> Iterator[Cluster]:
    found = apache_kafka.plan(data, controllers=len(CONTROLLERS), brokers=len(BROKERS))
    found.heap = "512m"
    with ExitStack() as stack:
        disks = [stack.enter_context(small_disk(node.directory)) for node in found.brokers]
        found.format()
        doors = {}
        for node in found.brokers:
            doors[node.id] = stack.enter_context(Door(("127.0.0.1", node.port)))
            _advertise(found.file(node), doors[node.id])
        stack.callback(found.stop)
        found.start()
        found.wait_ready()
        yield Kafka(found, doors, all(disks))


SYSTEMS = {"ours": ours, "kafka": kafka}


def _advertise(properties: Path, door: Door) -> None:
    """Advertises the door instead of the broker; the last line of a key counts."""
    with properties.open("a") as file:
        file.write(f"\nadvertised.listeners=PLAINTEXT://{door.address}\n")


@contextmanager
def small_disk(folder: Path) -> Iterator[bool]:
    """Mounts a separate disk on the folder until the block ends; yields False if mounting is not permitted."""
    folder.mkdir(parents=True, exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(folder)]
    is_mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    try:
        yield is_mounted
    finally:
        if is_mounted:
            # The data is kept for investigations of a failed run, without indexes, which are large and can be rebuilt.
            left_out = shutil.ignore_patterns("filler", "*.index", "*.timeindex")
            shutil.copytree(folder, folder.with_name(folder.name + "-kept"), ignore=left_out)
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


def clear_away(data: Path) -> None:
    """Removes remains of a killed run: a local cluster of ours, and mounted disks."""
    trimaran("down", "--data", data, check=False)
    for folder in data.iterdir():
        if folder.is_mount():
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path) -> None:
    """Fills the disk of the folder."""
    filler = os.open(folder / "filler", os.O_WRONLY | os.O_CREAT)
    with suppress(OSError):
        while True:
            os.write(filler, bytes(65536))
    os.close(filler)


def make_room(folder: Path) -> None:
    (folder / "filler").unlink()
