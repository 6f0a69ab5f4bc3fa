"""Kafka Connect with exactly-once sources (KIP-618) while nodes and its workers die.

Two distributed workers copy a file into a topic, and the topic into another file. Halfway, the worker of the source is
frozen until the other worker has its task; it then resumes as a zombie and is fenced. Then the worker of the task is
killed with SIGKILL. A broker and the active controller are killed with SIGKILL in turn, throughout the run.
"""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tests.cluster.processes import until
from tests.interop import java_programs
from tests.interop.kills import Kills
from tests.interop.suites.applications import reading
from tests.interop.suites.applications.claims import Claims
from tests.interop.suites.applications.nodes import cluster, seconds

LINES_PER_SECOND = 40
# A dead worker is noticed after its session; its open transaction is aborted when the successor's producer fences it.
ARRIVE_SECONDS_MAX = 240.0
START_SECONDS_MAX = 300.0
FROZEN_SECONDS = 20.0  # longer than the session of a worker, ten seconds
CALL_SECONDS = 20
SOURCE = {
    "connector.class": "FileStreamSource",
    "tasks.max": "1",
    "topic": "copied",
    "exactly.once.support": "required",
    "transaction.boundary": "poll",
    "topic.creation.default.partitions": "1",
    "topic.creation.default.replication.factor": "3",
    "topic.creation.default.retention.ms": "-1",
}
SINK = {"connector.class": "FileStreamSink", "tasks.max": "1", "topics": "copied"}
# The zombie's first request determines which of these errors it gets.
REFUSALS = ("ProducerFencedException", "InvalidProducerEpochException")
# Configs that Connect sets for its topics, and the connector for its topic.
COMPACTED = {"cleanup.policy": "compact"}
TOPICS = {
    "connect-config": COMPACTED,
    "connect-offset": COMPACTED,
    "connect-status": COMPACTED,
    "copied": {"retention.ms": "-1"},
}


class Worker:
    """A worker's process, and its REST interface."""

    def __init__(self, folder: Path, name: str, bootstrap: str) -> None:
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{sock.getsockname()[1]}"
        keys = {
            "bootstrap.servers": bootstrap,
            "group.id": "connect",
            "listeners": f"http://{self.address}",
            "exactly.once.source.support": "enabled",
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            "consumer.isolation.level": "read_committed",
            "offset.flush.interval.ms": "1000",
            "session.timeout.ms": "10000",
            "heartbeat.interval.ms": "1000",
            "scheduled.rebalance.max.delay.ms": "1000",
            "rebalance.timeout.ms": "10000",
        }
        for topic in ("config", "offset", "status"):
            keys |= {f"{topic}.storage.topic": f"connect-{topic}"}
            keys |= {f"{topic}.storage.replication.factor": "3"}
        self._file, self.log = folder / f"{name}.properties", folder / f"{name}.log"
        self._file.write_text("".join(f"{key}={value}\n" for key, value in keys.items()))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        main = "org.apache.kafka.connect.cli.ConnectDistributed"
        path = java_programs.connect_class_path("connect-file")
        line = java_programs.command(path, main, self._file, heap="384m")
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(line, stdout=log, stderr=log)

    def signal(self, which: int) -> None:
        assert self._process is not None
        assert self._process.poll() is None, f"the worker has ended; {self.log}"
        self._process.send_signal(which)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def configure(self, name: str, config: dict[str, str]) -> None:
        """Creates or changes a connector once the worker accepts it; it responds with 404 or 409 while it is joining
        its group.
        """
        until(
            lambda: self.ask(f"connectors/{name}/config", config) is not None,
            f"{name} is taken; {self.log}",
            START_SECONDS_MAX,
        )

    def task(self, name: str) -> tuple[str, str]:
        """Returns the state of a connector's only task, and the address of its worker."""
        found = self.ask(f"connectors/{name}/status") or {"tasks": []}
        return next(((task["state"], task["worker_id"]) for task in found["tasks"]), ("", ""))

    def ask(self, path: str, body: dict[str, str] | None = None) -> Any:
        data = json.dumps(body).encode() if body else None
        request = urllib.request.Request(
            f"http://{self.address}/{path}", data, {"Content-Type": "application/json"}, method="PUT" if body else "GET"
        )  # fmt: skip
        with (
            contextlib.suppress(urllib.error.URLError, OSError),
            urllib.request.urlopen(request, timeout=CALL_SECONDS) as answer,
        ):
            return json.loads(answer.read())
        return None


class InputFile:
    """A file to which numbered lines are appended."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: list[str] = []
        path.touch()

    def grow_for(self, duration: float) -> None:
        deadline = time.monotonic() + duration
        with self.path.open("a") as file:
            while time.monotonic() < deadline:
                self.lines.append(f"line {len(self.lines)}")
                file.write(self.lines[-1] + "\n")
                file.flush()
                time.sleep(1 / LINES_PER_SECOND)


def run(kind: str, folder: Path, claims: Claims) -> None:
    with cluster(kind, folder / "nodes") as nodes:
        workers = [Worker(folder, name, nodes.bootstrap) for name in ("worker-1", "worker-2")]
        source, sink = InputFile(folder / "source.txt"), folder / "sink.txt"
        try:
            _copy(workers, source, sink, nodes, claims)
            _judge(workers, source, sink, nodes.bootstrap, claims)
        finally:
            for worker in workers:
                worker.kill()


def _copy(workers: list[Worker], source: InputFile, sink: Path, nodes: Any, claims: Claims) -> None:
    for worker in workers:
        worker.start()
    workers[0].configure("source", {**SOURCE, "file": str(source.path)})
    workers[0].configure("sink", {**SINK, "file": str(sink)})
    _wait_for(workers, "source", workers)
    _wait_for(workers, "sink", workers)
    with Kills(nodes) as kills:
        source.grow_for(seconds() / 2)
        zombie = _wait_for(workers, "source", workers)
        others = [worker for worker in workers if worker is not zombie]
        zombie.signal(signal.SIGSTOP)
        source.grow_for(FROZEN_SECONDS)
        _wait_for(others, "source", others)
        zombie.signal(signal.SIGCONT)
        source.grow_for(FROZEN_SECONDS)
        victim = _wait_for(others, "source", workers)
        victim.kill()
        source.grow_for(FROZEN_SECONDS)
        victim.start()
        source.grow_for(seconds() / 2)
        kills.stop()
        claims.note(f"{len(source.lines)} lines, killed {kills.count}")
    said = zombie.log.read_text(errors="replace")
    is_refused = any(name in said for name in REFUSALS)
    claims.equal("a zombie is told that its epoch is over", True, is_refused)


def _wait_for(asked: list[Worker], name: str, among: list[Worker]) -> Worker:
    """Returns the worker that runs a connector's task according to one of `asked`, once it is one of `among`."""

    def found() -> Worker | None:
        for worker in asked:
            state, address = worker.task(name)
            if state == "RUNNING":
                return next((known for known in among if known.address == address), None)
        return None

    worker: Worker = until(found, f"{name} runs; {asked[0].log}", START_SECONDS_MAX)
    return worker


def _judge(
    workers: list[Worker], source: InputFile, sink: Path, bootstrap: str, claims: Claims
) -> None:
    copied = reading.Reader(bootstrap, "copied", 1)
    copied.read_until(
        lambda: len(copied.all) >= len(source.lines),
        "all lines are in the topic",
        ARRIVE_SECONDS_MAX,
    )
    copied.close()
    claims.equal(
        "each line is in the topic once, in order",
        source.lines,
        [value.decode() for _, value in copied.all],
    )

    def is_written() -> bool:
        return sink.exists() and set(source.lines) <= set(sink.read_text().splitlines())

    until(is_written, "all lines are in the file", ARRIVE_SECONDS_MAX)
    # A file sink commits its offsets after writing, so it may write records twice.
    written = list(dict.fromkeys(sink.read_text().splitlines()))
    claims.equal("the sink has each line, in order", source.lines, written)
    size = source.path.stat().st_size

    def position() -> int | None:
        for worker in workers:
            for offset in (worker.ask("connectors/source/offsets") or {"offsets": []})["offsets"]:
                return int(offset["offset"]["position"])
        return None

    until(lambda: position() is not None, "a worker tells offsets", ARRIVE_SECONDS_MAX)
    claims.equal("its offset is the end of the file", size, position())
    claims.equal(
        "its topics have the configs it asked for", TOPICS, reading.configs(bootstrap, TOPICS)
    )
