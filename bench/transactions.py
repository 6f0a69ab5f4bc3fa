"""Transactions of one producer: the rate with 1, 10 and 100 records each, and the duration of a commit.

Both systems have the same client and settings on one broker, and have committed for a while before: a young JVM takes
several times as long, and clients wait 20 ms longer if the previous transaction has not ended when the next one begins.
Commits are measured in turns, with both systems running: otherwise a machine whose speed drifts by a third within
minutes would decide the result. A read_committed consumer reads everything back, so that an ineffective commit is
noticed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field

from confluent_kafka import Consumer, TopicPartition

from bench.accounting import cpu_seconds, percentile
from bench.clusters import Cluster, Opener, settings_for
from bench.committers import CALL_SECONDS, Commit, JavaProducers, librdkafka
from bench.load import create_topic
from bench.results import Figure
from bench.sizes import sized
from tests.interop import apache_kafka

SETTINGS = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
RECORDS = (1, 10, 100)
# Commits of a JVM get faster for about this long.
WARM_UP_SECONDS = sized(30.0, 1.0)
TURNS = sized(6, 1)
SECONDS = sized(2.0, 1.0)  # seconds of a turn


@dataclass
class _Commits:
    """The commits of one system in all its turns with one count of records."""

    took: list[float] = field(default_factory=list)
    cpu_seconds: float = 0.0


def transactions_bench(systems: Mapping[str, Opener]) -> list[Figure]:
    """Measures with librdkafka."""
    return _both_kinds(systems, "transactions", librdkafka)


def java_transactions_bench(systems: Mapping[str, Opener]) -> list[Figure]:
    """Measures with Kafka's own client."""
    if (reason := apache_kafka.why_not()) is not None:
        print(f"bench: Kafka's own client is left out, {reason}", file=sys.stderr)
        return []
    with JavaProducers() as commit:
        return _both_kinds(systems, "transactions-java", commit)


def _both_kinds(systems: Mapping[str, Opener], bench: str, commit: Commit) -> list[Figure]:
    figures = []
    for fsync in (True, False):
        with ExitStack() as stack:
            clusters = {
                system: stack.enter_context(
                    open_cluster(1, 1, {**SETTINGS, **settings_for(system, fsync=fsync)})
                )
                for system, open_cluster in systems.items()
            }
            kind = "fsync" if fsync else "write-behind"
            figures += _in_turns(clusters, bench, kind, commit)
    return figures


def _in_turns(
    clusters: Mapping[str, Cluster], bench: str, kind: str, commit: Commit
) -> list[Figure]:
    for cluster in clusters.values():
        create_topic(cluster, "warm-up", 1, 1)
        commit(cluster, "warm-up", RECORDS[-1], WARM_UP_SECONDS)
        for records in RECORDS:
            create_topic(cluster, _topic(records), 1, 1)
    found = {(system, records): _Commits() for system in clusters for records in RECORDS}
    order = list(clusters)
    for _ in range(TURNS):
        for records in RECORDS:
            for system in order:
                _take_turn(clusters[system], records, commit, found[system, records])
        order.reverse()
    for (system, records), commits in found.items():
        read_back(clusters[system], _topic(records), len(commits.took) * records)
    return [
        figure
        for records in RECORDS
        for system in clusters
        for figure in _figures(
            bench, f"{records} records each, {kind}", system, found[system, records]
        )
    ]


def _topic(records: int) -> str:
    return f"tx-{records}"


def _take_turn(cluster: Cluster, records: int, commit: Commit, commits: _Commits) -> None:
    before = cpu_seconds(cluster.pids())
    took = commit(cluster, _topic(records), records, SECONDS)
    commits.cpu_seconds += cpu_seconds(cluster.pids()) - before
    commits.took += took


def _figures(bench: str, label: str, system: str, commits: _Commits) -> list[Figure]:
    return [
        Figure(bench, f"{label}: {what}", unit, better, system, value)
        for what, unit, better, value in (
            ("transactions", "1/s", "higher", len(commits.took) / (TURNS * SECONDS)),
            ("commit p50", "ms", "lower", percentile(commits.took, 0.5) * 1000),
            ("commit p99", "ms", "lower", percentile(commits.took, 0.99) * 1000),
            ("CPU", "ms each", "lower", commits.cpu_seconds / len(commits.took) * 1000),
        )
    ]


def read_back(cluster: Cluster, topic: str, count: int) -> None:
    """Reads this number of committed records of partition 0."""
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
        found += sum(result.error() is None for result in consumer.consume(1000, 0.2))
        assert time.monotonic() < deadline, f"{found} of {count} records"
    consumer.close()
