"""Runs a real Apache Kafka on this machine, as the reference of the interop tests and the peer of the benchmarks. `mvn`
fetches the jars from Maven Central into a cache outside the repository. Servers listen on 127.0.0.1 only.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

VERSION = "4.4.0"
SHELL_VERSION = "4.3.0"  # the last version whose metadata shell was published
CACHE = Path(os.environ.get("TRIMARAN_CACHE", "~/.cache/trimaran")).expanduser()
TOOLS = {
    "leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "topics": "org.apache.kafka.tools.TopicCommand",
    "acls": "org.apache.kafka.tools.AclCommand",
    "client-metrics": "org.apache.kafka.tools.ClientMetricsCommand",
    "configs": "org.apache.kafka.tools.ConfigCommand",
    "delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
    "consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "share-groups": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "streams-groups": "org.apache.kafka.tools.streams.StreamsGroupCommand",
    "console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "console-share-consumer": "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
    "metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "storage": "kafka.tools.StorageTool",
    "cluster": "org.apache.kafka.tools.ClusterTool",
    "metadata-shell": "org.apache.kafka.shell.MetadataShell",
    "features": "org.apache.kafka.tools.FeatureCommand",
    "groups": "org.apache.kafka.tools.GroupsCommand",
    "verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
    "verifiable-share-consumer": "org.apache.kafka.tools.VerifiableShareConsumer",
    "verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
    "transactions": "org.apache.kafka.tools.TransactionsCommand",
    "log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
}
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>local</groupId><artifactId>peer</artifactId><version>1</version>
<dependencies>{dependencies}</dependencies></project>"""
JVM = [
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-Djava.awt.headless=true",
]  # as Kafka's scripts pass
# For tools and nodes of tests, which end before a compiler's work pays.
SHORT_LIVED = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
READY_SECONDS_MAX = 240.0  # a JVM needs ten seconds on an idle machine


def why_not() -> str | None:
    """Returns the reason why no Apache Kafka can run here; None if it can."""
    missing = [tool for tool in ("java", "mvn") if shutil.which(tool) is None]
    return f"needs {' and '.join(missing)} on the PATH" if missing else None


def artifacts(version: str) -> tuple[tuple[str, str, str], ...]:
    has_shell = "2.8" <= version <= SHELL_VERSION
    shell = (("org.apache.kafka", "kafka-shell", version),) if has_shell else ()
    return (
        ("org.apache.kafka", "kafka_2.13", version),
        ("org.apache.kafka", "kafka-tools", version),
        *shell,
        ("org.slf4j", "slf4j-simple", "1.7.36"),
    )


def class_path(version: str = VERSION) -> str:
    """Resolves the jars of a version once and returns the class path."""
    return f"{libraries(version)}/*"


def libraries(version: str = VERSION) -> Path:
    """Returns the folder with the jars of a version, which are fetched once."""
    return fetched(f"kafka-{version}", artifacts(version))


def fetched(name: str, wanted: tuple[tuple[str, str, str], ...]) -> Path:
    """Returns the folder with these artifacts (group, name, version) and their dependencies, which are fetched once
    under this name.
    """
    folder = CACHE / name
    complete = folder / "complete"
    if not complete.exists() or complete.read_text() != repr(wanted):
        folder.mkdir(parents=True, exist_ok=True)
        parts = (
            f"<dependency><groupId>{g}</groupId><artifactId>{a}</artifactId><version>{v}</version></dependency>"
            for g, a, v in wanted
        )
        (folder / "pom.xml").write_text(POM.format(dependencies="".join(parts)))
        command = [
            "mvn",
            "-q",
            "-B",
            "dependency:copy-dependencies",
            f"-DoutputDirectory={folder}/libs",
        ]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        complete.write_text(repr(wanted))
    return folder / "libs"


def java(
    main: str,
    *arguments: str,
    level: str = "error",
    heap: str = "512m",
    version: str = VERSION,
    jvm: tuple[str, ...] = (),
    path: str | None = None,
) -> list[str]:
    """Returns the command line of a Java program of Kafka, or of a program with another class path."""
    options = [f"-Dorg.slf4j.simpleLogger.defaultLogLevel={level}", f"-Xmx{heap}", *jvm]
    return ["java", *options, "-cp", path or class_path(version), main, *arguments]


def tool(
    name: str,
    *arguments: str,
    stdin: str | None = None,
    timeout: float = 180,
    check: bool = True,
    version: str = VERSION,
) -> subprocess.CompletedProcess[str]:
    """Runs one of Kafka's own command-line tools until it exits."""
    done = subprocess.run(
        java(TOOLS[name], *arguments, version=version, jvm=SHORT_LIVED),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    if check and done.returncode != 0:
        raise AssertionError(f"kafka-{name} {' '.join(arguments)}: {done.stdout}\n{done.stderr}")
    return done


@dataclass
class Node:
    """One JVM: a broker, a controller or both."""

    id: int
    roles: str
    port: int
    directory: Path
    process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"


@dataclass
class ApacheKafka:
    """A KRaft cluster of Apache Kafka with static voters, its nodes by role."""

    directory: Path
    controllers: list[Node]
    brokers: list[Node]
    settings: dict[str, str] = field(default_factory=dict)
    heap: str = "1g"
    jvm: tuple[str, ...] = ()  # further JVM options of each node
    version: str = VERSION

    @property
    def nodes(self) -> list[Node]:
        return list({id(n): n for n in [*self.controllers, *self.brokers]}.values())

    @property
    def bootstrap(self) -> str:
        return ",".join(n.address for n in self.brokers)

    @property
    def controller_bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{_controller_port(n)}" for n in self.controllers)

    @property
    def pids(self) -> list[int]:
        return [n.process.pid for n in self.nodes if n.process is not None]

    def format(self, *options: str) -> None:
        cluster_id = self._tool("storage", "random-uuid").stdout.strip().splitlines()[-1]
        for node in self.nodes:
            node.directory.mkdir(parents=True, exist_ok=True)
            self.write_properties(node)
            where = ("-t", cluster_id, "-c", str(self.file(node)))
            self._tool("storage", "format", *where, *options)

    def _tool(self, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return tool(name, *arguments, version=self.version)

    def start_node(self, node: Node) -> None:
        file = str(self.file(node))
        command = java("kafka.Kafka", file, level="info", heap=self.heap, version=self.version)
        with (self.directory / f"{node.id}.log").open("ab") as log:
            node.process = subprocess.Popen(
                [command[0], *JVM, *self.jvm, *command[1:]], stdout=log, stderr=log
            )

    def start(self) -> None:
        for node in self.nodes:
            self.start_node(node)

    def kill(self, node: Node, number: int = signal.SIGKILL) -> None:
        assert node.process is not None
        node.process.send_signal(number)
        node.process.wait()
        node.process = None

    def wait_ready(self) -> None:
        """Waits until every broker lists all brokers."""
        from trimaran.local.readiness import brokers_seen_by

        deadline = time.monotonic() + READY_SECONDS_MAX
        for node in self.brokers:
            while len(brokers_seen_by(node.address)) < len(self.brokers):
                if time.monotonic() > deadline:
                    raise AssertionError(f"Apache Kafka in {self.directory} did not get ready")
                time.sleep(0.05)

    def stop(self) -> None:
        for group in (self.brokers, self.controllers):
            running = [n for n in group if n.process is not None]
            for node in running:
                node.process.terminate()  # type: ignore[union-attr]
            for node in running:
                self._wait_gone(node)

    @staticmethod
    def _wait_gone(node: Node) -> None:
        assert node.process is not None
        try:
            node.process.wait(20)
        except subprocess.TimeoutExpired:
            node.process.kill()
            node.process.wait()
        node.process = None

    def file(self, node: Node) -> Path:
        return self.directory / f"{node.id}.properties"

    def write_properties(self, node: Node) -> None:
        voters = ",".join(f"{n.id}@127.0.0.1:{_controller_port(n)}" for n in self.controllers)
        listeners = []
        if "broker" in node.roles:
            listeners.append(f"PLAINTEXT://{node.address}")
        if "controller" in node.roles:
            listeners.append(f"CONTROLLER://127.0.0.1:{_controller_port(node)}")
        copies = str(min(3, len(self.brokers)))
        keys = {
            "process.roles": node.roles,
            "node.id": str(node.id),
            "controller.quorum.voters": voters,
            "controller.listener.names": "CONTROLLER",
            "listeners": ",".join(listeners),
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": str(node.directory),
            "offsets.topic.replication.factor": copies,
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": copies,
            **self.settings,
        }
        self.file(node).write_text("".join(f"{k}={v}\n" for k, v in keys.items()))


def _controller_port(node: Node) -> int:
    return node.port + 1 if node.roles == "broker,controller" else node.port


def _free_port_pair(taken: set[int]) -> int:
    while True:
        port = random.randrange(20000, 32000, 2)
        if port in taken:
            continue
        with contextlib.suppress(OSError), socket.socket() as a, socket.socket() as b:
            a.bind(("127.0.0.1", port))
            b.bind(("127.0.0.1", port + 1))
            taken.add(port)
            return port


def plan(
    directory: Path,
    *,
    controllers: int = 1,
    brokers: int = 1,
    settings: Mapping[str, str] | None = None,
) -> ApacheKafka:
    """Returns a cluster with the node ids of our local clusters; with `controllers=0` the nodes are combined."""
    taken: set[int] = set()

    def node(number: int, roles: str) -> Node:
        return Node(number, roles, _free_port_pair(taken), directory / f"node-{number}")

    if controllers == 0:
        both = [node(1 + i, "broker,controller") for i in range(brokers)]
        return ApacheKafka(directory, both, both, dict(settings or {}))
    voters = [node(1 + i, "controller") for i in range(controllers)]
    return ApacheKafka(
        directory, voters, [node(11 + i, "broker") for i in range(brokers)], dict(settings or {})
    )


@contextlib.contextmanager
def running(
    directory: Path,
    *,
    controllers: int = 1,
    brokers: int = 1,
    settings: Mapping[str, str] | None = None,
    heap: str = "1g",
    version: str = VERSION,
) -> Iterator[ApacheKafka]:
    """Formats and starts a cluster with at most this heap for each node; yields it once it is ready, and stops it on
    exit.
    """
    kafka = plan(directory, controllers=controllers, brokers=brokers, settings=settings)
    kafka.heap, kafka.version = heap, version
    kafka.format()
    kafka.start()
    try:
        kafka.wait_ready()
        yield kafka
    finally:
        kafka.stop()
