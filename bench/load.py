"""The client of every bench: confluent-kafka in one process, the same settings for both systems."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench.accounting import measured
from bench.clusters import Cluster

SHARE = 1_000  # messages that are passed to librdkafka at a time


@dataclass(frozen=True)
class Throughput:
    """The records of a run, of `size` bytes each."""

    records: int
    size: int
    seconds: float
    cpu_seconds: float

    @property
    def mb_per_second(self) -> float:
        return self.records * self.size / 1e6 / self.seconds

    @property
    def records_per_second(self) -> float:
        return self.records / self.seconds

    @property
    def cpu_seconds_per_gb(self) -> float:
        return self.cpu_seconds / (self.records * self.size / 1e9)


def create_topic(
    cluster: Cluster,
    name: str,
    partitions: int,
    replication: int,
    config: dict[str, str] | None = None,
) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(name, partitions, replication, config=config or {})])[
        name
    ].result(30)
    wait_for_leaders(admin, name, partitions)


def wait_for_leaders(admin: AdminClient, name: str, partitions: int) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        topic = admin.list_topics(name, timeout=10).topics[name]
        if len(topic.partitions) == partitions and all(
            p.leader >= 0 for p in topic.partitions.values()
        ):
            return
        time.sleep(0.02)
    raise RuntimeError(f"{name} has no leaders")


def produce(
    cluster: Cluster,
    topic: str,
    partitions: int,
    *,
    size: int,
    records: int,
    compression: str = "none",
    batch_bytes: int = 1_000_000,
    are_equal: bool = True,
) -> Throughput:
    """Produces `records` records of `size` bytes with acks=all, as fast as librdkafka can. Their values are hexadecimal
    digits, all the same or those of `SHARE` records.
    """
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "acks": "all",
            "linger.ms": 5,
            "batch.size": batch_bytes,
            "queue.buffering.max.messages": 200_000,
            "queue.buffering.max.kbytes": 400_000,
            "compression.type": compression,
        }
    )
    values = [os.urandom(size // 2).hex().encode() for _ in range(1 if are_equal else SHARE)]
    failed: list[str] = []

    def on_delivery(error: object, _: object) -> None:
        if error is not None:
            failed.append(str(error))

    messages: list[dict[str, object]] = [{"value": values[i % len(values)]} for i in range(SHARE)]
    messages[-1]["callback"] = on_delivery
    producer.list_topics(topic, timeout=10)
    with measured(cluster.pids()) as usage:
        _hand_over(producer, topic, partitions, messages, records)
        left = producer.flush(120)
    if left or failed:
        raise RuntimeError(f"{left} records not acknowledged, {failed[:1]}")
    return Throughput(records, size, usage.seconds, usage.cpu_seconds)


def _hand_over(
    producer: Producer,
    topic: str,
    partitions: int,
    messages: Sequence[dict[str, object]],
    records: int,
) -> None:
    for i in range(records // SHARE):
        while len(producer) > 150_000:
            producer.poll(0.01)
        producer.produce_batch(topic, list(messages), partition=i % partitions)
        producer.poll(0)


def consume(
    cluster: Cluster, topic: str, partitions: int, *, size: int, records: int
) -> Throughput:
    """Reads `records` records from the beginning of all partitions."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "fetch.max.bytes": 50_000_000,
            "max.partition.fetch.bytes": 10_000_000,
            "queued.min.messages": 1_000_000,
            "queued.max.messages.kbytes": 1_000_000,
            "check.crcs": False,
        }
    )
    got = 0
    deadline = time.monotonic() + 120
    with measured(cluster.pids()) as usage:
        consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in range(partitions)])
        while got < records and time.monotonic() < deadline:
            got += len(consumer.consume(10_000, 1.0))
    consumer.close()
    if got < records:
        raise RuntimeError(f"{got} of {records} records came")
    return Throughput(got, size, usage.seconds, usage.cpu_seconds)


def produce_one_by_one(cluster: Cluster, topic: str, *, size: int, records: int) -> list[float]:
    """Returns the seconds from each send to its acknowledgement, with one record in flight."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 0})
    value = os.urandom(size)
    times = []
    for _ in range(records):
        began = time.perf_counter()
        producer.produce(topic, value, partition=0)
        producer.flush(30)
        times.append(time.perf_counter() - began)
    return times
