"""The benches. Each takes a function that opens a cluster, and the name of the system, and returns figures; benches
that take turns take such a function for each system.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from bench.accounting import cpu_seconds, percentile, rss_mib
from bench.broker_failover import broker_failover
from bench.clusters import Opener, settings_for
from bench.copying import copying_bench
from bench.fairness import fairness_bench
from bench.groups import idle_bench, joining_bench, loading_bench
from bench.load import Throughput, consume, create_topic, produce, produce_one_by_one
from bench.quotas import quotas_bench
from bench.results import Figure
from bench.shares import shares_bench, tasks_bench
from bench.sizes import sized
from bench.transactions import java_transactions_bench, transactions_bench

PARTITIONS = 6
IDLE_SECONDS = sized(10.0, 0.5)


def startup(open_cluster: Opener, system: str) -> list[Figure]:
    figures = []
    for name, controllers, brokers in (
        ("1 node", 0 if system == "kafka" else 1, 1),
        ("3 + 3", 3, 3),
    ):
        began = time.perf_counter()
        with open_cluster(controllers, brokers, {}) as cluster:
            ready = time.perf_counter() - began
            cpu = cpu_seconds(cluster.pids())
            memory = [rss_mib(pid) for pid in cluster.pids()]
            before = cpu_seconds(cluster.pids())
            time.sleep(IDLE_SECONDS)
            idle = (cpu_seconds(cluster.pids()) - before) / IDLE_SECONDS * 100
        figures += [
            Figure("startup", f"{name}: ready, format included", "s", "lower", system, ready),
            Figure("startup", f"{name}: CPU to ready", "s", "lower", system, cpu),
            Figure(
                "startup",
                f"{name}: RSS of the largest process",
                "MiB",
                "lower",
                system,
                max(memory),
            ),
            Figure("startup", f"{name}: RSS in all", "MiB", "lower", system, sum(memory)),
            Figure("startup", f"{name}: CPU when idle", "% core", "lower", system, idle),
        ]
    return figures


def throughput_figures(bench: str, label: str, system: str, moved: Throughput) -> list[Figure]:
    return [
        Figure(bench, f"{label}: rate", "MB/s", "higher", system, moved.mb_per_second),
        Figure(
            bench, f"{label}: records", "1000/s", "higher", system, moved.records_per_second / 1000
        ),
        Figure(bench, f"{label}: broker CPU", "s/GB", "lower", system, moved.cpu_seconds_per_gb),
    ]


def produce_bench(open_cluster: Opener, system: str) -> list[Figure]:
    figures = []
    for fsync in (True, False):
        kind = "fsync" if fsync else "write-behind"
        with open_cluster(1, 1, settings_for(system, fsync=fsync)) as cluster:
            for size, records in (
                (1024, sized(1_000_000, 10_000)),
                (100, sized(3_000_000, 10_000)),
            ):
                topic = f"produce-{size}"
                create_topic(cluster, topic, PARTITIONS, 1)
                produce(cluster, topic, PARTITIONS, size=size, records=records // 5)  # warms up
                moved = produce(cluster, topic, PARTITIONS, size=size, records=records)
                figures += throughput_figures("produce", f"{size} B, {kind}", system, moved)
    return figures


def consume_bench(open_cluster: Opener, system: str) -> list[Figure]:
    with open_cluster(1, 1, settings_for(system, fsync=False)) as cluster:
        create_topic(cluster, "consume", PARTITIONS, 1)
        records = sized(2_000_000, 10_000)
        produce(cluster, "consume", PARTITIONS, size=1024, records=records)
        consume(cluster, "consume", PARTITIONS, size=1024, records=records)
        moved = consume(cluster, "consume", PARTITIONS, size=1024, records=records)
    return throughput_figures("consume", "1 KiB, page cache", system, moved)


def latency_bench(open_cluster: Opener, system: str) -> list[Figure]:
    figures = []
    for fsync in (True, False):
        kind = "fsync" if fsync else "write-behind"
        with open_cluster(1, 1, settings_for(system, fsync=fsync)) as cluster:
            create_topic(cluster, "latency", 1, 1)
            produce_one_by_one(cluster, "latency", size=100, records=sized(2_000, 20))
            times = produce_one_by_one(cluster, "latency", size=100, records=sized(5_000, 20))
        for share, label in ((0.5, "p50"), (0.99, "p99")):
            value = percentile(times, share) * 1000
            figures.append(
                Figure(
                    "latency", f"synchronous produce, {kind}, {label}", "ms", "lower", system, value
                )
            )
    return figures


def replication_bench(open_cluster: Opener, system: str) -> list[Figure]:
    with open_cluster(3, 3, {}) as cluster:  # our cluster with fsync, Kafka's with its default
        create_topic(cluster, "rf3", PARTITIONS, 3, {"min.insync.replicas": "2"})
        produce(cluster, "rf3", PARTITIONS, size=1024, records=sized(100_000, 5_000))
        moved = produce(cluster, "rf3", PARTITIONS, size=1024, records=sized(500_000, 5_000))
        times = produce_one_by_one(cluster, "rf3", size=100, records=sized(1_000, 20))
    figures = throughput_figures("rf3", "1 KiB, acks=all, min ISR 2", system, moved)
    for share, label in ((0.5, "p50"), (0.99, "p99")):
        value = percentile(times, share) * 1000
        figures.append(Figure("rf3", f"synchronous produce, {label}", "ms", "lower", system, value))
    return figures


BENCHES: dict[str, Callable[[Opener, str], list[Figure]]] = {
    "startup": startup,
    "produce": produce_bench,
    "consume": consume_bench,
    "latency": latency_bench,
    "rf3": replication_bench,
    "broker-failover": broker_failover,
    "exactly-once": copying_bench,
    "quotas": quotas_bench,
    "fairness": fairness_bench,
    "group-joining": joining_bench,
    "group-idle": idle_bench,
    "group-loading": loading_bench,
}
IN_TURNS: dict[str, Callable[[Mapping[str, Opener]], list[Figure]]] = {
    "transactions": transactions_bench,
    "transactions-java": java_transactions_bench,
    "shares": shares_bench,
    "streams-tasks": tasks_bench,
}
