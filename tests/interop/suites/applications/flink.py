"""Flink's connector with exactly-once sinks (`java/FlinkCopy.java`) while nodes and the job die.

The job copies a topic in transactions that a checkpoint prepares and its completion commits. It is repeatedly killed
with SIGKILL, and resumes from its last checkpoint. The new process commits the transactions of that checkpoint with the
producer id and epoch of the dead process, and aborts later ones, with both strategies of naming transactional ids. A
broker and the active controller are killed with SIGKILL in turn, throughout the run.
"""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from confluent_kafka import KafkaError, Message
from confluent_kafka.admin import NewTopic

from tests.cluster.processes import until
from tests.interop import apache_kafka, java_programs, maven
from tests.interop.kills import Kills
from tests.interop.suites.applications import reading
from tests.interop.suites.applications.claims import Claims
from tests.interop.suites.applications.nodes import cluster, seconds
from tests.librdkafka import Producer

VERSION = "2.2.1"
CONNECTOR = "5.0.0-2.2"
ARTIFACTS = (
    f"org.apache.flink:flink-clients:{VERSION}",
    f"org.apache.flink:flink-connector-base:{VERSION}",
    f"org.apache.flink:flink-connector-kafka:{CONNECTOR}",
    "org.slf4j:slf4j-simple:1.7.36",
)
# Flink's own scripts pass more of these; for records of strings these suffice.
OPENED = [f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in ("lang", "util", "time")]
PARTITIONS, COPIES = 3, 3
RECORDS_PER_SECOND = 100
DEATHS = 4
START_SECONDS_MAX = 300.0
ARRIVE_SECONDS_MAX = 240.0
CALL_SECONDS = 120


class Source:
    """A source of numbered values by partition, each acknowledged by all in-sync replicas."""

    def __init__(self, bootstrap: str) -> None:
        self.sent: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
        self._failed: list[KafkaError] = []
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})

    def send_for(self, duration: float) -> None:
        deadline = time.monotonic() + duration
        while time.monotonic() < deadline:
            for partition, values in enumerate(self.sent):
                values.append(b"%d" % len(values))
                self._producer.produce(
                    "flink-in", values[-1], partition=partition, on_delivery=self._delivered
                )
            self._producer.poll(PARTITIONS / RECORDS_PER_SECOND)

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._failed.append(error)

    def close(self) -> None:
        assert self._producer.flush(CALL_SECONDS) == 0
        assert self._failed == []


class Job:
    """The job; each of its processes starts from the last checkpoint."""

    def __init__(self, bootstrap: str, strategy: str, folder: Path, classes: str) -> None:
        self._folder = folder
        self._checkpoints = folder / "checkpoints"
        self._command = [
            "java",
            "-Xmx512m",
            *java_programs.OPTIONS,
            *OPENED,
            "-cp",
            classes,
            "FlinkCopy",
        ]
        self._arguments = [bootstrap, strategy, self._checkpoints.as_uri()]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        begin = self.last_checkpoint
        arguments = [*self._arguments, "-" if begin is None else begin.as_uri()]
        with (self._folder / "job.log").open("ab") as log:
            self._process = subprocess.Popen([*self._command, *arguments], stdout=log, stderr=log)

    @property
    def last_checkpoint(self) -> Path | None:
        """Returns the folder of the last complete checkpoint; None if there is none."""
        found = self._checkpoints.glob("*/chk-*/_metadata")
        last = max(found, key=lambda file: file.stat().st_mtime_ns, default=None)
        return None if last is None else last.parent

    def wait_for_checkpoint(self) -> None:
        """Waits until there is a new checkpoint."""
        before = self.last_checkpoint
        until(
            lambda: self.check() and self.last_checkpoint != before,
            "a checkpoint",
            START_SECONDS_MAX,
        )

    def check(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, f"the job has ended; {self._folder / 'job.log'}"
        return True

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def run_incrementing(kind: str, folder: Path, claims: Claims) -> None:
    _run("INCREMENTING", kind, folder, claims)


def run_pooling(kind: str, folder: Path, claims: Claims) -> None:
    _run("POOLING", kind, folder, claims)


def _run(strategy: str, kind: str, folder: Path, claims: Claims) -> None:
    jars = f"{maven.libraries(f'flink-{VERSION}-{CONNECTOR}', ARTIFACTS)}/*"
    source_file = java_programs.SOURCES / "FlinkCopy.java"
    subprocess.run(["javac", "-nowarn", "-d", folder, "-cp", jars, source_file], check=True)
    with cluster(kind, folder / "nodes") as nodes:
        topics = [NewTopic(name, PARTITIONS, COPIES) for name in ("flink-in", "flink-out")]
        reading.create(nodes.bootstrap, topics)
        source = Source(nodes.bootstrap)
        job = Job(nodes.bootstrap, strategy, folder, f"{folder}:{jars}")
        try:
            job.start()
            source.send_for(1)
            job.wait_for_checkpoint()
            with Kills(nodes) as kills:
                for _ in range(DEATHS):
                    source.send_for(seconds() / DEATHS)
                    job.wait_for_checkpoint()
                    job.kill()
                    source.send_for(1)
                    job.start()
                source.send_for(seconds() / DEATHS)
                kills.stop()
                source.close()
                claims.note(f"{sum(map(len, source.sent))} records, killed {kills.count}")
            _judge(nodes.bootstrap, source, job, claims)
        finally:
            job.kill()


def _judge(bootstrap: str, source: Source, job: Job, claims: Claims) -> None:
    found = reading.Reader(bootstrap, "flink-out", PARTITIONS)
    wanted = sum(map(len, source.sent))
    found.read_until(
        lambda: job.check() and len(found.all) >= wanted, "all is copied", ARRIVE_SECONDS_MAX
    )
    found.close()
    values = [[value for _, value in partition] for partition in found.records]
    claims.equal("each record is copied once, in order", source.sent, values)
    ends = reading.ends(bootstrap, "flink-in", PARTITIONS)

    def committed() -> dict[tuple[str, int], int | None]:
        offsets = reading.offsets(bootstrap, "flink")
        return {at: offsets.get(at) for at in ends}

    until(lambda: committed() == ends, f"{ends}, not {committed()}", ARRIVE_SECONDS_MAX)
    claims.equal("its group is at the end of the input", ends, committed())
    listed = apache_kafka.tool("transactions", "--bootstrap-server", bootstrap, "list").stdout
    left = [
        line
        for line in listed.splitlines()
        if "flink-copy" in line and "Complete" not in line and "Empty" not in line
    ]
    claims.equal("no transaction stays open", [], left)
