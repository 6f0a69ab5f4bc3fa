"""Transactions of one producer: how many a second with 1, 10 and 100 records each, and how long a commit takes; and how
much a second is consumed, transformed and produced.

librdkafka on one broker, the same client and the same settings for both systems, and both have committed for a while
before: a young JVM takes several times as long, and librdkafka waits for 20 ms more wherever the transaction before has
not ended when it begins the next. A read_committed consumer reads everything back, so that a commit that does not count
is noticed.
"""

from __future__ import annotations

import time

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.accounting import cpu_seconds, measured, percentile
from bench.clusters import Cluster, Opener, settings_for
from bench.load import create_topic, produce
from bench.results import Figure

SETTINGS = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
RECORDS = (1, 10, 100)
WARM_UP = 20
# A JVM's commits get quicker for about so long.
WARM_UP_SECONDS = 30.0
SECONDS = 6.0
CALL_SECONDS = 60
SIZE = 100
COPIED, COPIED_SIZE, COPIED_BATCH = 300_000, 1024, 5_000


def transactions_bench(open_cluster: Opener, system: str) -> list[Figure]:
    figures = []
    for fsync in (True, False):
        kind = "fsync" if fsync else "write-behind"
        with open_cluster(1, 1, {**SETTINGS, **settings_for(system, fsync=fsync)}) as cluster:
            create_topic(cluster, "warm-up", 1, 1)
            _commit(cluster, "warm-up", RECORDS[-1], WARM_UP_SECONDS)
            for records in RECORDS:
                label = f"{records} records each, {kind}"
                figures += _committed(cluster, f"tx-{records}", records, label, system)
    return figures


def _committed(cluster: Cluster, topic: str, records: int, label: str, system: str) -> list[Figure]:
    create_topic(cluster, topic, 1, 1)
    before = cpu_seconds(cluster.pids())
    commits, seconds = _commit(cluster, topic, records, SECONDS)
    cpu = cpu_seconds(cluster.pids()) - before
    _read_back(cluster, topic, (len(commits) + WARM_UP) * records)
    return [
        Figure("transactions", f"{label}: {what}", unit, better, system, value)
        for what, unit, better, value in (
            ("transactions", "1/s", "higher", len(commits) / seconds),
            ("commit p50", "ms", "lower", percentile(commits, 0.5) * 1000),
            ("commit p99", "ms", "lower", percentile(commits, 0.99) * 1000),
            ("CPU", "ms each", "lower", cpu / (len(commits) + WARM_UP) * 1000),
        )
    ]


def _commit(
    cluster: Cluster, topic: str, records: int, seconds: float
) -> tuple[list[float], float]:
    """Commits for so long; seconds of each commit, and of all, after the first few."""
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "transactional.id": topic,
            "linger.ms": 0,
            "log_level": 0,
        }
    )
    producer.init_transactions(CALL_SECONDS)
    commits: list[float] = []
    began = time.perf_counter()
    while len(commits) < WARM_UP or time.perf_counter() - began < seconds:
        if len(commits) == WARM_UP:
            began = time.perf_counter()
        producer.begin_transaction()
        for _ in range(records):
            producer.produce(topic, value=bytes(SIZE), partition=0)
        ended = time.perf_counter()
        producer.commit_transaction(CALL_SECONDS)
        commits.append(time.perf_counter() - ended)
    return commits[WARM_UP:], time.perf_counter() - began


def _read_back(cluster: Cluster, topic: str, count: int) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "bench",
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found, deadline = 0, time.monotonic() + CALL_SECONDS
    while found < count:
        found += sum(one.error() is None for one in consumer.consume(1000, 0.2))
        assert time.monotonic() < deadline, f"{found} of {count} records"
    consumer.close()


def copying_bench(open_cluster: Opener, system: str) -> list[Figure]:
    """Records of one topic to another, with their offsets in the transaction: so many in each."""
    figures = []
    for fsync in (True, False):
        kind = "fsync" if fsync else "write-behind"
        with open_cluster(1, 1, {**SETTINGS, **settings_for(system, fsync=fsync)}) as cluster:
            label = f"{COPIED_BATCH:,} records of 1 KiB each, {kind}"
            figures += _copied(cluster, label, system)
    return figures


def _copied(cluster: Cluster, label: str, system: str) -> list[Figure]:
    for topic in ("source", "target"):
        create_topic(cluster, topic, 1, 1)
    produce(cluster, "source", 1, size=COPIED_SIZE, records=COPIED)
    with measured(cluster.pids()) as usage:
        _copy(cluster)
    _read_back(cluster, "target", COPIED)
    megabytes = COPIED * COPIED_SIZE / 1e6
    cpu = usage.cpu_seconds / megabytes * 1000
    return [
        Figure("exactly-once", f"{label}: copied", "MB/s", "higher", system, megabytes / usage.seconds),
        Figure("exactly-once", f"{label}: broker CPU", "s/GB", "lower", system, cpu),
    ]  # fmt: skip


def _copy(cluster: Cluster) -> None:
    common = {"bootstrap.servers": cluster.bootstrap, "log_level": 0}
    consumer = Consumer(
        {
            **common,
            "group.id": "copiers",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }
    )
    producer = Producer({**common, "transactional.id": "copier", "linger.ms": 5})
    producer.init_transactions(CALL_SECONDS)
    consumer.assign([TopicPartition("source", 0, 0)])
    done, deadline = 0, time.monotonic() + 4 * CALL_SECONDS
    while done < COPIED:
        assert time.monotonic() < deadline, f"{done} of {COPIED} copied"
        messages = [one for one in consumer.consume(COPIED_BATCH, 1.0) if one.error() is None]
        if not messages:
            continue
        producer.begin_transaction()
        for message in messages:
            producer.produce("target", value=message.value(), partition=0)
        producer.send_offsets_to_transaction(
            consumer.position([TopicPartition("source", 0)]),
            consumer.consumer_group_metadata(),
            CALL_SECONDS,
        )
        producer.commit_transaction(CALL_SECONDS)
        done += len(messages)
    consumer.close()
