"""Kafka Connect 4.3, a distributed worker with exactly-once sources, on 3 + 3 nodes of ours that die by SIGKILL.

A file is read into a topic, and the topic into another file. A minute by default; `./dev interop --minutes 10` for
longer. Half way the worker itself dies by SIGKILL: the one that follows fences its transactional producers.
"""

import contextlib
import json
import signal
import socket
import time
import urllib.error
import urllib.request

import pytest
from confluent_kafka import TopicPartition

from tests.cluster.processes import LocalCluster, until
from tests.interop import apache_kafka, java_programs
from tests.interop.kills import Kills, seconds_of
from tests.librdkafka import Consumer

LINES_PER_SECOND = 40
# A dead worker is missed after its session; what it left open is aborted when its successor is fenced in.
ARRIVE_SECONDS_MAX = 180.0
START_SECONDS_MAX = 120.0
CALL_SECONDS = 10
SOURCE = {
    "connector.class": "FileStreamSource",
    "tasks.max": "1",
    "topic": "copied",
    "exactly.once.support": "required",
    "transaction.boundary": "poll",
    "topic.creation.default.partitions": "1",
    "topic.creation.default.replication.factor": "3",
}
SINK = {"connector.class": "FileStreamSink", "tasks.max": "1", "topics": "copied"}


class Worker:
    """Its settings, and its REST interface."""

    def __init__(self, folder, bootstrap):
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            self.url = f"http://127.0.0.1:{sock.getsockname()[1]}"
        keys = {
            "bootstrap.servers": bootstrap,
            "group.id": "connect",
            "listeners": self.url,
            "exactly.once.source.support": "enabled",
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            "consumer.isolation.level": "read_committed",
            "offset.flush.interval.ms": 1000,
            "session.timeout.ms": 10_000,
            "heartbeat.interval.ms": 1000,
            "scheduled.rebalance.max.delay.ms": 1000,
        }
        for name in ("config", "offset", "status"):
            keys |= {f"{name}.storage.topic": f"connect-{name}"}
            keys |= {f"{name}.storage.replication.factor": 3}
        self.file, self.log = folder / "worker.properties", folder / "worker.log"
        self.file.write_text("".join(f"{key}={value}\n" for key, value in keys.items()))

    def running(self):
        main = "org.apache.kafka.connect.cli.ConnectDistributed"
        path = java_programs.class_path()
        line = java_programs.command(path, main, self.file, heap="384m")
        return java_programs.running(line, self.log)

    def configure(self, name, config):
        """Creates or changes a connector, once the worker takes it: it answers 404 or 409 while it joins its group."""
        until(
            lambda: self._ask(f"connectors/{name}/config", config) is not None,
            f"{name} is not taken; {self.log}",
            START_SECONDS_MAX,
        )

    def copy(self, source, sink, seconds):
        """Lets `source` grow for so long once both connectors run."""
        self.configure("source", {**SOURCE, "file": str(source.path)})
        self.configure("sink", {**SINK, "file": str(sink)})
        self.wait_until_running("source", "sink")
        source.grow_for(seconds)

    def wait_until_running(self, *names):
        for name in names:
            until(
                lambda name=name: self.states(name) == ["RUNNING"],
                f"{name} runs; {self.log}",
                START_SECONDS_MAX,
            )

    def states(self, name):
        """Of the connector's tasks."""
        found = self._ask(f"connectors/{name}/status") or {"tasks": []}
        return [task["state"] for task in found["tasks"]]

    def _ask(self, path, body=None):
        data = json.dumps(body).encode() if body else None
        request = urllib.request.Request(
            f"{self.url}/{path}", data, {"Content-Type": "application/json"}, method="PUT" if body else "GET"
        )  # fmt: skip
        with (
            contextlib.suppress(urllib.error.URLError, OSError),
            urllib.request.urlopen(request, timeout=CALL_SECONDS) as answer,
        ):
            return json.loads(answer.read())
        return None


class InputFile:
    """A file that grows by numbered lines."""

    def __init__(self, path):
        self.path, self.lines = path, []
        path.touch()

    def grow_for(self, seconds):
        deadline = time.monotonic() + seconds
        with self.path.open("a") as file:
            while time.monotonic() < deadline:
                self.lines.append(f"line {len(self.lines)}")
                file.write(self.lines[-1] + "\n")
                file.flush()
                time.sleep(1 / LINES_PER_SECOND)


def committed(bootstrap, count):
    """At least so many values that a read_committed reader finds, and what comes after them."""
    settings = {"group.id": "judge", "isolation.level": "read_committed"}
    found = []
    consumer = Consumer({"bootstrap.servers": bootstrap, **settings})
    consumer.assign([TopicPartition("copied", 0, 0)])

    def read():
        messages = consumer.consume(1000, 0.5)
        found.extend(one.value().decode() for one in messages if one.error() is None)
        return len(found) >= count

    until(read, "all lines are in the topic", ARRIVE_SECONDS_MAX)
    read()
    consumer.close()
    return found


def without_repeats(lines):
    """What a file sink wrote without what it wrote again: it commits its offsets after it has written."""
    return list(dict.fromkeys(lines))


@pytest.fixture
def cluster(tmp_path):
    with LocalCluster(tmp_path / "cluster") as found:
        yield found


@pytest.mark.client("Java", "Connect", version=apache_kafka.VERSION)
def test_files_are_copied_exactly_while_nodes_die(cluster, tmp_path, minutes):
    worker = Worker(tmp_path, cluster.bootstrap)
    source, sink = InputFile(tmp_path / "source.txt"), tmp_path / "sink.txt"
    with Kills(cluster) as kills:
        with worker.running() as process:
            worker.copy(source, sink, seconds_of(minutes) / 2)
            assert process.poll() is None, f"the worker has ended; {worker.log}"
            process.send_signal(signal.SIGKILL)
        with worker.running():
            worker.copy(source, sink, seconds_of(minutes) / 2)
            kills.stop()
            found = committed(cluster.bootstrap, len(source.lines))

            def is_written():
                return set(source.lines) <= set(sink.read_text().splitlines())

            until(is_written, f"all lines are in the file; {worker.log}", ARRIVE_SECONDS_MAX)
    written = sink.read_text().splitlines()
    repeats = len(written) - len(without_repeats(written))
    print(f"{len(source.lines)} lines, killed {kills.count}, {repeats} lines twice in the sink")
    assert min(kills.count.values()) > 0
    assert found == source.lines
    assert without_repeats(written) == source.lines
