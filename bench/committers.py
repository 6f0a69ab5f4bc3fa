"""Clients that commit transactions of a given size for a given time, and report the duration of each commit."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Self

from confluent_kafka import Producer

from bench.clusters import Cluster
from bench.java_clients import JavaClients

SIZE = 100  # bytes of a record's value
CALL_SECONDS = 60

Commit = Callable[[Cluster, str, int, float], list[float]]
"""Takes cluster, topic, records of each transaction, and seconds to run; returns the duration of each commit."""


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
    """Kafka's own client. Brokers add its partitions to transactions."""

    def __init__(self) -> None:
        self._clients = JavaClients("Commits.java", str(SIZE))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._clients.close()

    def __call__(self, cluster: Cluster, topic: str, records: int, seconds: float) -> list[float]:
        return self._clients.turn(cluster, topic, records, round(seconds))
