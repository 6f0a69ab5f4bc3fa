"""Clients that commit transactions of a given size for a given time, and report the duration of each commit."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from confluent_kafka import Producer

from bench.clusters import Cluster
from tests.interop import apache_kafka

SIZE = 100  # bytes of a record's value
CALL_SECONDS = 60
PROGRAM = Path(__file__).with_name("Commits.java")

Commit = Callable[[Cluster, str, int, float], list[float]]
"""Cluster, topic, records of each transaction, seconds: the seconds of each commit, one for each transaction."""


def librdkafka(cluster: Cluster, topic: str, records: int, seconds: float) -> list[float]:
    """librdkafka adds the partitions to transactions itself, like every client before 4.0."""
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "transactional.id": topic,
            "linger.ms": 0,
            "log_level": 0,
        }
    )
    producer.init_transactions(CALL_SECONDS)
    took: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        producer.begin_transaction()
        for _ in range(records):
            producer.produce(topic, value=bytes(SIZE), partition=0)
        began = time.perf_counter()
        producer.commit_transaction(CALL_SECONDS)
        took.append(time.perf_counter() - began)
    return took


class JavaProducers:
    """Kafka's own client, in one lasting process for each cluster, since a young JVM is slow. Brokers add its
    partitions to transactions.
    """

    def __init__(self) -> None:
        self._running = ExitStack()
        self._processes: dict[str, subprocess.Popen[str]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    def __call__(self, cluster: Cluster, topic: str, records: int, seconds: float) -> list[float]:
        process = self._processes.get(cluster.bootstrap) or self._start(cluster.bootstrap)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{topic} {records} {round(seconds)}\n")
        process.stdin.flush()
        line = process.stdout.readline()
        assert line, "the client has ended"
        return [int(each) / 1e9 for each in line.split()]

    def _start(self, bootstrap: str) -> subprocess.Popen[str]:
        command = apache_kafka.java(str(PROGRAM), bootstrap, str(SIZE))
        pipe = subprocess.PIPE
        process = self._running.enter_context(
            subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
        )
        self._running.callback(process.kill)
        self._processes[bootstrap] = process
        return process
