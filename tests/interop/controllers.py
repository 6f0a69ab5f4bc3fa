"""A cluster in which each node is ours or Apache Kafka's: controllers of one dynamic quorum (KIP-853), and brokers."""

import contextlib
import json
import re
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.interop import apache_kafka
from tests.interop.conftest import trimaran
from trimaran.local.readiness import brokers_seen_by
from trimaran.quorum.observing.description import describe_quorum_request
from trimaran.wire.blocking import BlockingConnection
from trimaran.wire.client.errors import ConnectionLost, RequestTimedOut

CLUSTER_ID = "5L6g3nShT-eMCtK--X86sw"
# An idle controller writes a record every half second; an election in Kafka takes two seconds, and the start of a JVM
# five, or a minute on a busy machine.
SECONDS_MAX = 180.0
METADATA_QUORUM = describe_quorum_request()


@dataclass
class Controllers:
    """Nodes by id, each "ours" or "kafka", with a properties file that both programs can read. `kinds` are the kinds of
    the controllers, `brokers` those of the brokers. `settings` are further lines of all files, `of_brokers` further
    lines of brokers' files; in these `{id}` and `{address}` are those of the node, and None omits a line. With a
    `protocol` brokers also have a listener CLIENTS with that protocol. `versions` are those of Apache Kafka's nodes
    that are not the newest.
    """

    root: Path
    kinds: dict[int, str]
    brokers: dict[int, str] = field(default_factory=dict)
    settings: dict[str, object] = field(default_factory=dict)
    protocol: str = ""
    of_brokers: dict[str, object] = field(default_factory=dict)
    versions: dict[int, str] = field(default_factory=dict)
    ports: dict[int, int] = field(default_factory=dict)
    client_ports: dict[int, int] = field(default_factory=dict)
    processes: dict[int, subprocess.Popen] = field(default_factory=dict)
    directory_ids: dict[int, str] = field(default_factory=dict)

    def __post_init__(self):
        nodes = self.kinds | self.brokers
        with contextlib.ExitStack() as stack:
            for ports in (self.ports, self.client_ports):
                for i in nodes:
                    sock = stack.enter_context(socket.socket())
                    sock.bind(("127.0.0.1", 0))
                    ports[i] = sock.getsockname()[1]
        for i in nodes:
            self.directory_ids[i] = trimaran("storage", "random-uuid").stdout.strip()
            role, listener = ("controller", "CONTROLLER") if i in self.kinds else ("broker", "B")
            keys = {
                "process.roles": role,
                "node.id": i,
                "controller.quorum.bootstrap.servers": self.bootstrap(*self.kinds),
                "controller.listener.names": "CONTROLLER",
                "listeners": f"{listener}://{self.address(i)}",
                "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,B:PLAINTEXT",
                "log.dirs": self.directory(i),
            }
            if role == "broker":
                keys |= {"inter.broker.listener.name": "B", "offsets.topic.replication.factor": 1}
            if role == "broker" and self.protocol:
                keys["listeners"] += f",CLIENTS://{self.client_bootstrap(i)}"
                keys["listener.security.protocol.map"] += f",CLIENTS:{self.protocol}"
            keys |= {"broker.session.timeout.ms": 3000, "broker.heartbeat.interval.ms": 500}
            said = self.settings | (self.of_brokers if role == "broker" else {})
            keys |= {k: self._of(i, str(v)) for k, v in said.items() if v is not None}
            self.file(i).write_text("".join(f"{k}={v}\n" for k, v in keys.items()))

    def _of(self, i, value):
        return value.replace("{id}", str(i)).replace("{address}", self.address(i))

    def address(self, i):
        return f"127.0.0.1:{self.ports[i]}"

    def bootstrap(self, *ids):
        return ",".join(self.address(i) for i in ids)

    def client_bootstrap(self, *ids):
        return ",".join(f"127.0.0.1:{self.client_ports[i]}" for i in ids)

    def file(self, i):
        return self.root / f"{i}.properties"

    def directory(self, i):
        return self.root / f"node-{i}"

    @property
    def initial(self):
        return ",".join(f"{i}@{self.address(i)}:{self.directory_ids[i]}" for i in self.kinds)

    @property
    def running_controllers(self):
        return [i for i in self.processes if i in self.kinds]

    def kind(self, i):
        return (self.kinds | self.brokers)[i]

    def version(self, i):
        return self.versions.get(i, apache_kafka.VERSION)

    def format(self, i, *options, by=None):
        arguments = ("format", "-t", CLUSTER_ID, "-c", str(self.file(i)), *options)
        if (by or self.kind(i)) == "kafka":
            version = self.version(i)
            apache_kafka.tool("storage", *arguments, timeout=SECONDS_MAX, version=version)
        else:
            trimaran("storage", *arguments)

    def start(self, i):
        if self.kind(i) == "kafka":
            command = apache_kafka.java(
                "kafka.Kafka",
                str(self.file(i)),
                level="info",
                jvm=apache_kafka.SHORT_LIVED,
                version=self.version(i),
            )
        else:
            command = [sys.executable, "-m", "trimaran", "server", "start", "-c", self.file(i)]
        with (self.root / f"{i}.log").open("ab") as log:
            self.processes[i] = subprocess.Popen(command, stdout=log, stderr=log)

    def start_brokers(self):
        """Formats and starts all brokers; returns when each lists all of them."""
        for i in self.brokers:
            self.format(i, *(() if self.brokers[i] == "kafka" else ("--no-initial-controllers",)))
            self.start(i)
        deadline = time.monotonic() + SECONDS_MAX
        for i in self.brokers:
            while len(brokers_seen_by(self.address(i))) < len(self.brokers):
                assert time.monotonic() < deadline, f"broker {i} is alone; logs in {self.root}"
                time.sleep(0.1)

    def kill(self, i, number=signal.SIGKILL):
        process = self.processes.pop(i)
        process.send_signal(number)
        process.wait(60)

    def stop(self):
        """Stops the brokers first, because their shutdown needs a controller."""
        for i in sorted(self.processes, key=lambda i: i in self.kinds):
            self.kill(i, signal.SIGTERM)

    def tool(self, *arguments):
        bootstrap = self.bootstrap(*self.running_controllers)
        return apache_kafka.tool(
            "metadata-quorum", "--bootstrap-controller", bootstrap, *arguments
        ).stdout

    def status(self):
        """Returns the leader's response; None without a leader."""
        bootstrap = self.bootstrap(*self.running_controllers)
        done = trimaran("quorum", "status", "-B", bootstrap, "-o", "json", check=False)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def voters(self):
        listed = re.search(r"CurrentVoters:\s+(\[.*\])", self.tool("describe", "--status"))
        return {node["id"] for node in json.loads(listed.group(1))}

    def until(self, condition):
        deadline = time.monotonic() + SECONDS_MAX
        while not condition(found := self.status()):
            assert time.monotonic() < deadline, f"{found}; logs in {self.root}"
            time.sleep(0.1)
        return found

    def quorum(self):
        """The quorum's partition as the leader describes it; None without a leader."""
        for i in self.running_controllers:
            with contextlib.suppress(ConnectionLost, RequestTimedOut):
                connection = BlockingConnection(("127.0.0.1", self.ports[i]), timeout=1.0)
                with contextlib.closing(connection):
                    answer = connection.call(METADATA_QUORUM, timeout=1.0)
                if not answer.error_code and not answer.topics[0].partitions[0].error_code:
                    return answer.topics[0].partitions[0]
        return None

    def log(self, i):
        return (self.directory(i) / "__cluster_metadata-0" / f"{0:020d}.log").read_bytes()


@contextlib.contextmanager
def controllers(root, kinds, brokers=None, settings=None, protocol="", of_brokers=None, **more):
    found = Controllers(
        root, kinds, brokers or {}, settings or {}, protocol, of_brokers or {}, **more
    )
    try:
        yield found
    finally:
        found.stop()
