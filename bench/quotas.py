"""The accuracy of quotas: bytes produced and fetched, partitions created, connections opened.

Each client does as much as its quota allows for `SECONDS`, after the burst that all windows together allow. Both
systems have the same clients: librdkafka, and plain sockets for connections. The effect of a `request_percentage`
cannot be measured from outside. Figures are the deviation of a client as a share of the target.
"""

from __future__ import annotations

import socket
import struct
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench.clusters import Cluster, Opener, trimaran
from bench.load import create_topic, produce
from bench.results import Figure
from bench.sizes import sized

# All eleven windows of a quota may be used at once, and again when they have passed, with a second of overlap: bursts
# are nearly twelve seconds apart and last for some seconds. Whole rounds are measured, from a quiet second after the
# first two on; otherwise a client that keeps its quota would seem to deviate by 25 %.
BURST_SECONDS = sized(17.0, 1.0)
SECONDS = sized(35.0, 2.0)
BYTES_PER_SECOND = 1_000_000
PARTITIONS_PER_SECOND = 5
CONNECTIONS_PER_SECOND = 20
CONNECTING_THREADS = 4
RECORD_BYTES = 1024
CALL_SECONDS = 30.0
# ApiVersions 0 without a client id.
_HELLO = struct.pack(">ihhih", 10, 18, 0, 1, -1)


def quotas_bench(open_cluster: Opener, system: str) -> list[Figure]:
    with open_cluster(1, 1, {}) as cluster:
        for topic in ("produced", "fetched"):
            create_topic(cluster, topic, 1, 1)
        records = int(BYTES_PER_SECOND * (BURST_SECONDS + 2 * SECONDS)) // RECORD_BYTES
        produce(cluster, "fetched", 1, size=RECORD_BYTES, records=records)
        _set(cluster, "client-id=p", f"producer_byte_rate={BYTES_PER_SECOND}")
        _set(cluster, "client-id=f", f"consumer_byte_rate={BYTES_PER_SECOND}")
        _set(cluster, "client-id=m", f"controller_mutation_rate={PARTITIONS_PER_SECOND}")
        meters = (_produced, _fetched, _created)
        with ThreadPoolExecutor(len(meters)) as pool:
            rates = list(pool.map(lambda meter: _rate(meter(cluster)), meters))
        _set(cluster, "ip", f"connection_creation_rate={CONNECTIONS_PER_SECOND}")
        with ThreadPoolExecutor(CONNECTING_THREADS) as pool:
            each = pool.map(lambda _: _rate(_connected(cluster)), range(CONNECTING_THREADS))
            rates.append(sum(each))
    targets = (
        ("bytes produced", BYTES_PER_SECOND),
        ("bytes fetched", BYTES_PER_SECOND),
        ("partitions made", PARTITIONS_PER_SECOND),
        ("connections opened", CONNECTIONS_PER_SECOND),
    )
    for (what, target), rate in zip(targets, rates, strict=True):
        print(f"bench: {what}: {rate:,.1f} a second of {target:,}", file=sys.stderr)
    return [
        Figure(
            "quotas",
            f"{what}: off {target:,} a second",
            "%",
            "lower",
            system,
            abs(rate - target) / target * 100,
        )
        for (what, target), rate in zip(targets, rates, strict=True)
    ]


def _set(cluster: Cluster, entity: str, quota: str) -> None:
    trimaran("quotas", "set", entity, quota, "-b", cluster.bootstrap)


def _rate(amounts: Iterator[float]) -> float:
    """Returns the rate per second, over `SECONDS` after the burst."""
    began = time.monotonic() + BURST_SECONDS
    done = 0.0
    for amount in amounts:
        now = time.monotonic()
        if now >= began + SECONDS:
            return done / SECONDS
        done += amount * (now >= began)
    raise AssertionError("there is no more to do")


def _produced(cluster: Cluster) -> Iterator[float]:
    settings = {"client.id": "p", "linger.ms": 5, "batch.size": 16_384, "log_level": 0}
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "queue.buffering.max.kbytes": 1024, **settings}
    )
    delivered: list[int] = []

    def on_delivery(error: object, _message: object) -> None:
        assert error is None, error
        delivered.append(RECORD_BYTES)

    while True:
        try:
            producer.produce("produced", bytes(RECORD_BYTES), partition=0, on_delivery=on_delivery)
        except BufferError:
            producer.poll(0.05)
        producer.poll(0)
        yield sum(delivered)
        delivered.clear()


def _fetched(cluster: Cluster) -> Iterator[float]:
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "client.id": "f",
            "group.id": "bench",
            "fetch.message.max.bytes": 100_000,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition("fetched", 0, 0)])
    try:
        while True:
            messages = consumer.consume(1000, 0.05)
            yield sum(
                len(message.value() or b"") for message in messages if message.error() is None
            )
    finally:
        consumer.close()


def _created(cluster: Cluster) -> Iterator[float]:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "client.id": "m", "log_level": 0})
    for number in count():
        topic = NewTopic(f"made-{number}", num_partitions=1, replication_factor=1)
        (future,) = admin.create_topics([topic], request_timeout=CALL_SECONDS).values()
        try:
            future.result(CALL_SECONDS)
            yield 1
        except KafkaException:  # it may send again after a while
            time.sleep(0.05)
            yield 0


def _connected(cluster: Cluster) -> Iterator[float]:
    """Connects; a connection that comes too early is closed without a response."""
    host, port = cluster.bootstrap.split(",")[0].rsplit(":", 1)
    while True:
        try:
            with socket.create_connection((host, int(port)), timeout=CALL_SECONDS) as sock:
                sock.sendall(_HELLO)
                yield float(bool(sock.recv(4)))
        except ConnectionError:
            yield 0
