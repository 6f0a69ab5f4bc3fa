"""Kafka Streams with exactly_once_v2 (`java/Topologies.java`) while nodes and its own instances die.

Two instances share the work. Halfway, one of them is frozen until its group has assigned its tasks to the other, and
then resumes: its open transaction must not be committed. Then it is killed with SIGKILL and its directory is deleted;
its state is restored from the changelogs. A broker and the active controller are killed with SIGKILL in turn,
throughout the run.
"""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from confluent_kafka import KafkaError, Message
from confluent_kafka.admin import NewTopic

from tests.interop import java_programs
from tests.interop.kills import Kills
from tests.interop.suites.applications import reading
from tests.interop.suites.applications.claims import Claims
from tests.interop.suites.applications.nodes import cluster, seconds
from tests.librdkafka import Producer

APPLICATION = "words"
PARTITIONS, COPIES = 3, 3
LINES_PER_SECOND = 40
WORDS = [f"w{number}" for number in range(50)]
KEYS = [f"k{number}" for number in range(20)]
# The open transaction of a dead instance is aborted after ten seconds, and a dead member is noticed after as many.
ARRIVE_SECONDS_MAX = 240.0
# Longer than the session of a member, which is ten seconds in `Topologies`.
FROZEN_SECONDS = 15.0
CALL_SECONDS = 120
# Configs that Streams sets for its own topics.
REPARTITION = {
    "cleanup.policy": "delete",
    "message.timestamp.type": "CreateTime",
    "retention.ms": "-1",
    "segment.bytes": "52428800",
}
CHANGELOG = {"cleanup.policy": "compact", "message.timestamp.type": "CreateTime"}
INTERNAL = {
    f"{APPLICATION}-running-changelog": CHANGELOG,
    f"{APPLICATION}-words-changelog": CHANGELOG,
    f"{APPLICATION}-words-repartition": REPARTITION,
}


class Lines:
    """A source of lines of random words, each acknowledged by all in-sync replicas; `sent` has them in order."""

    def __init__(self, bootstrap: str, seed: int) -> None:
        self.sent: list[tuple[str, str]] = []
        self._failed: list[KafkaError] = []
        self._prng = random.Random(seed)
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})

    def send_for(self, duration: float) -> None:
        deadline = time.monotonic() + duration
        while time.monotonic() < deadline:
            key = self._prng.choice(KEYS)
            line = " ".join(self._prng.choices(WORDS, k=self._prng.randint(1, 5)))
            self.sent.append((key, line))
            self._producer.produce("lines", line, key, on_delivery=self._delivered)
            self._producer.poll(1 / LINES_PER_SECOND)

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._failed.append(error)

    def close(self) -> None:
        assert self._producer.flush(CALL_SECONDS) == 0
        assert self._failed == []

    def word_counts(self) -> dict[str, int]:
        return dict(Counter(word for _, line in self.sent for word in line.split()))

    def running_sums(self) -> dict[str, list[tuple[int, int]]]:
        """Returns the expected output of the second topology, by key and in order."""
        found: dict[str, list[tuple[int, int]]] = {}
        for key, line in self.sent:
            before = found.setdefault(key, [(0, 0)])[-1]
            found[key].append((before[0] + 1, before[1] + len(line.split())))
        return {key: values[1:] for key, values in found.items()}


class Instances:
    """The two instances of the application, by number, each with its own directory and log."""

    def __init__(self, bootstrap: str, folder: Path, classes: str, protocol: str) -> None:
        self._folder = folder
        self._lines = {
            number: java_programs.command(
                classes, "Topologies", bootstrap, APPLICATION, self._state(number), protocol
            )
            for number in (1, 2)
        }
        self._running: dict[int, subprocess.Popen[bytes]] = {}

    def _state(self, number: int) -> Path:
        return self._folder / f"state-{number}"

    def __enter__(self) -> Self:
        self.start(1)
        self.start(2)
        return self

    def start(self, number: int) -> None:
        with (self._folder / f"instance-{number}.log").open("ab") as log:
            self._running[number] = subprocess.Popen(self._lines[number], stdout=log, stderr=log)

    def signal(self, number: int, which: int) -> None:
        self._running[number].send_signal(which)

    def kill(self, number: int) -> None:
        """Kills an instance with SIGKILL, and deletes its state."""
        process = self._running.pop(number)
        process.kill()
        process.wait()
        shutil.rmtree(self._state(number), ignore_errors=True)

    def check(self) -> None:
        for number, process in self._running.items():
            assert process.poll() is None, f"instance {number} has ended; logs in {self._folder}"

    def __exit__(self, *_: object) -> None:
        for process in self._running.values():
            process.kill()
            process.wait()


def sums_of(records: Iterable[reading.Record]) -> dict[str | None, list[tuple[int, int]]]:
    found: dict[str | None, list[tuple[int, int]]] = {}
    for key, value in records:
        count, words = value.decode().split()
        found.setdefault(key, []).append((int(count), int(words)))
    return found


def counts_of(records: Iterable[reading.Record]) -> tuple[dict[str | None, int], bool]:
    """Returns the last count of each word, and whether counts never decreased."""
    last: dict[str | None, int] = {}
    is_rising = True
    for word, value in records:
        count = int.from_bytes(value, "big")
        is_rising = is_rising and count > last.get(word, 0)
        last[word] = count
    return last, is_rising


def run(kind: str, folder: Path, claims: Claims, protocol: str = "classic") -> None:
    """Makes the claims about a run in a group of this protocol: `classic` or `streams` (KIP-1071)."""
    classes = java_programs.compiled("Topologies", folder)
    with cluster(kind, folder / "nodes") as nodes:
        topics = [NewTopic(name, PARTITIONS, COPIES) for name in ("lines", "counts", "sums")]
        reading.create(nodes.bootstrap, topics)
        lines = Lines(nodes.bootstrap, seed=7)
        with (
            Kills(nodes) as kills,
            Instances(nodes.bootstrap, folder, classes, protocol) as instances,
        ):
            lines.send_for(seconds() / 2)
            instances.check()
            instances.signal(1, signal.SIGSTOP)
            lines.send_for(FROZEN_SECONDS)
            instances.signal(1, signal.SIGCONT)
            lines.send_for(FROZEN_SECONDS / 2)
            instances.check()
            instances.kill(1)
            lines.send_for(FROZEN_SECONDS / 2)
            instances.start(1)
            lines.send_for(seconds() / 2)
            kills.stop()
            lines.close()
            claims.note(f"{len(lines.sent)} lines, killed {kills.count}")
            _read(nodes.bootstrap, lines, instances, claims)


def _read(bootstrap: str, lines: Lines, instances: Instances, claims: Claims) -> None:
    sums, counts = (reading.Reader(bootstrap, topic, PARTITIONS) for topic in ("sums", "counts"))
    wanted = lines.word_counts()

    def are_summed() -> bool:
        instances.check()
        return len(sums.all) >= len(lines.sent)

    sums.read_until(are_summed, "all lines are summed", ARRIVE_SECONDS_MAX)
    counts.read_until(
        lambda: counts_of(counts.all)[0] == wanted, "all words are counted", ARRIVE_SECONDS_MAX
    )
    sums.close()
    counts.close()
    claims.equal(
        "the sum of each line is told once, in order", lines.running_sums(), sums_of(sums.all)
    )
    claims.equal("counts are exact and never go back", (wanted, True), counts_of(counts.all))
    claims.equal(
        "its own topics have the configs it asked for",
        INTERNAL,
        reading.configs(bootstrap, INTERNAL),
    )
    ends = reading.ends(bootstrap, "lines", PARTITIONS)
    found = reading.offsets(bootstrap, APPLICATION)
    claims.equal("its group is at the end of the input", ends, {at: found.get(at) for at in ends})
