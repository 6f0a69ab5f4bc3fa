"""Dynamic quorums (KIP-853) with Apache Kafka 4.3: its tools change our voters, either opens the other's directories, both vote together."""

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

import pytest

from tests.interop import apache_kafka
from tests.interop.conftest import trimaran

CLUSTER_ID = "5L6g3nShT-eMCtK--X86sw"
# An idle controller writes a record every half second; an election of Kafka's takes two seconds, and a JVM five to start.
SECONDS_MAX = 60.0


@dataclass
class Controllers:
    """Controllers by id, each ours or Apache Kafka's, with a properties file that both can read."""

    root: Path
    kinds: dict[int, str]
    ports: dict[int, int] = field(default_factory=dict)
    processes: dict[int, subprocess.Popen] = field(default_factory=dict)
    directory_ids: dict[int, str] = field(default_factory=dict)

    def __post_init__(self):
        with contextlib.ExitStack() as stack:
            for i in self.kinds:
                sock = stack.enter_context(socket.socket())
                sock.bind(("127.0.0.1", 0))
                self.ports[i] = sock.getsockname()[1]
        for i in self.kinds:
            self.directory_ids[i] = trimaran("storage", "random-uuid").stdout.strip()
            keys = {
                "process.roles": "controller",
                "node.id": i,
                "controller.quorum.bootstrap.servers": self.bootstrap(*self.kinds),
                "controller.listener.names": "CONTROLLER",
                "listeners": f"CONTROLLER://{self.address(i)}",
                "listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
                "log.dirs": self.directory(i),
            }
            self.file(i).write_text("".join(f"{k}={v}\n" for k, v in keys.items()))

    def address(self, i):
        return f"127.0.0.1:{self.ports[i]}"

    def bootstrap(self, *ids):
        return ",".join(self.address(i) for i in ids)

    def file(self, i):
        return self.root / f"{i}.properties"

    def directory(self, i):
        return self.root / f"node-{i}"

    @property
    def initial(self):
        return ",".join(f"{i}@{self.address(i)}:{self.directory_ids[i]}" for i in self.kinds)

    def format(self, i, *options, by=None):
        arguments = ("format", "-t", CLUSTER_ID, "-c", str(self.file(i)), *options)
        if (by or self.kinds[i]) == "kafka":
            apache_kafka.tool("storage", *arguments)
        else:
            trimaran("storage", *arguments)

    def start(self, i):
        if self.kinds[i] == "kafka":
            command = apache_kafka.java("kafka.Kafka", str(self.file(i)), level="info")
        else:
            command = [
                sys.executable,
                "-m",
                "trimaran",
                "controller",
                "start",
                "-c",
                str(self.file(i)),
            ]
        with (self.root / f"{i}.log").open("ab") as log:
            self.processes[i] = subprocess.Popen(command, stdout=log, stderr=log)

    def kill(self, i, number=signal.SIGKILL):
        process = self.processes.pop(i)
        process.send_signal(number)
        process.wait(60)

    def stop(self):
        for i in list(self.processes):
            self.kill(i, signal.SIGTERM)

    def tool(self, *arguments):
        bootstrap = self.bootstrap(*self.processes)
        return apache_kafka.tool(
            "metadata-quorum", "--bootstrap-controller", bootstrap, *arguments
        ).stdout

    def status(self):
        """What the leader says; None while there is none."""
        bootstrap = self.bootstrap(*self.processes)
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

    def log(self, i):
        return (self.directory(i) / "__cluster_metadata-0" / f"{0:020d}.log").read_bytes()


@contextlib.contextmanager
def controllers(root, kinds):
    found = Controllers(root, kinds)
    try:
        yield found
    finally:
        found.stop()


def test_kafkas_tool_adds_and_removes_our_controllers(tmp_path):
    with controllers(tmp_path, {1: "ours", 2: "ours"}) as quorum:
        quorum.format(1, "--standalone")
        quorum.format(2, "--no-initial-controllers", by="kafka")
        for i in (1, 2):
            quorum.start(i)
        quorum.until(lambda s: s is not None and len(s["replicas"]) == 2)
        assert quorum.voters() == {1}
        quorum.tool("--command-config", str(quorum.file(2)), "add-controller")
        assert quorum.voters() == {1, 2}
        directory = re.search(
            r"directory.id=(\S+)", (quorum.directory(1) / "meta.properties").read_text()
        ).group(1)
        quorum.tool(
            "remove-controller", "--controller-id", "1", "--controller-directory-id", directory
        )
        quorum.until(lambda s: s is not None and s["leader_id"] == 2)
        assert quorum.voters() == {2}


@pytest.mark.parametrize(("first", "then"), [("kafka", "ours"), ("ours", "kafka")])
def test_either_goes_on_with_the_others_directory(tmp_path, first, then):
    with controllers(tmp_path, {1: first}) as quorum:
        # formatted by ours: Kafka's own formatting turns features on that we do not serve
        quorum.format(1, "--standalone", by="ours")
        quorum.start(1)
        before = quorum.until(lambda s: s is not None and s["high_watermark"] > 5)
        quorum.kill(1, signal.SIGTERM)
        kept = quorum.log(1)
        quorum.kinds[1] = then
        quorum.start(1)
        after = quorum.until(
            lambda s: s is not None and s["high_watermark"] > before["high_watermark"]
        )
        assert after["leader_epoch"] > before["leader_epoch"]
        assert quorum.voters() == {1}
        quorum.kill(1, signal.SIGTERM)
        assert quorum.log(1).startswith(kept)


def test_formats_of_both_are_the_same_but_for_times(tmp_path):
    snapshots = {}
    for kind in ("ours", "kafka"):
        (tmp_path / kind).mkdir()
        quorum = Controllers(tmp_path / kind, {1: kind})
        quorum.ports = {1: 29093}
        quorum.directory_ids = {1: "JEXY6aqzQY-32P5TStzaFg"}
        quorum.format(1, "--initial-controllers", quorum.initial)
        (path,) = quorum.directory(1).glob("__cluster_metadata-0/*.checkpoint")
        text = apache_kafka.tool(
            "dump-log", "--cluster-metadata-decoder", "--files", str(path)
        ).stdout
        without_times = re.sub(
            r"(CreateTime|lastContainedLogTimestamp\S*|crc): ?\d+|lastContainedLogTimestamp\W+\d+",
            "",
            text,
        )
        snapshots[kind] = without_times.replace(str(path), "")
    assert snapshots["ours"] == snapshots["kafka"]
    assert "voters" in snapshots["ours"]


@pytest.mark.parametrize("kinds", [("ours", "ours", "kafka"), ("ours", "kafka", "kafka")])
def test_we_vote_together(tmp_path, kinds):
    """Each leader is killed in turn; whoever follows, what was committed is in every log, byte by byte."""
    with controllers(tmp_path, dict(enumerate(kinds, 1))) as quorum:
        for i in quorum.kinds:
            quorum.format(i, "--initial-controllers", quorum.initial, by="ours")
            quorum.start(i)
        led = set()
        status = quorum.until(lambda s: s is not None and s["high_watermark"] > 5)
        for _ in range(3):
            leader, reached = status["leader_id"], status["high_watermark"]
            led.add(leader)
            quorum.kill(leader)
            quorum.until(
                lambda s, gone=leader, end=reached: (
                    s is not None and s["leader_id"] != gone and s["high_watermark"] > end
                )
            )
            quorum.start(leader)
            status = quorum.until(_all_caught_up)
        assert quorum.voters() == {1, 2, 3}
        quorum.stop()
        logs = [quorum.log(i) for i in quorum.kinds]
        shortest = min(map(len, logs))
        assert all(log[:shortest] == logs[0][:shortest] for log in logs)
        assert shortest > 1000


def _all_caught_up(status):
    return status is not None and all(
        0 <= replica["lag"] < 5 and replica["log_end_offset"] >= 0 for replica in status["replicas"]
    )
