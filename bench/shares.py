"""Share groups and streams groups with Kafka's own clients: the rate of records that a share group receives, the
duration of an acknowledgement, and the time until the tasks of an application of Kafka Streams are active.

Both systems run at the same time, and are measured in turns, with one client process for each, which is warmed up by
the same work.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from bench.accounting import cpu_seconds, percentile
from bench.clusters import Cluster, Opener
from bench.java_clients import JavaClients
from bench.load import create_topic, produce
from bench.results import Figure
from bench.sizes import sized
from tests.interop import apache_kafka
from trimaran.node.text.wording import counted

SETTINGS = {
    "offsets.topic.replication.factor": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
TOPIC, PARTITIONS, SIZE = "shared", 8, 100
RECORDS = sized(200_000, 2_000)
MEMBERS = (1, 8)
TURNS = sized(3, 1)
COMMIT_SECONDS = sized(5, 1)
TASKS, THREADS = sized(100, 4), sized(10, 2)


@dataclass
class _Measured:
    """All turns of one system: seconds of each measured action, and CPU seconds of the nodes."""

    took: list[float] = field(default_factory=list)
    cpu_seconds: float = 0.0


def shares_bench(systems: Mapping[str, Opener]) -> list[Figure]:
    """Measures the rate with 1 and 8 members that acknowledge implicitly, and commits of explicit acknowledgements."""
    with _running(systems, "Shares.java", TOPIC, PARTITIONS) as (clusters, client):
        for cluster in clusters.values():
            produce(cluster, TOPIC, PARTITIONS, size=SIZE, records=RECORDS)
            client.turn(cluster, "records", "warm-up", TOPIC, 1, RECORDS)
        figures = []
        for members in MEMBERS:

            def consumed(cluster: Cluster, turn: int, members: int = members) -> list[float]:
                return client.turn(
                    cluster, "records", f"of-{members}-{turn}", TOPIC, members, RECORDS
                )

            for system, found in _in_turns(clusters, consumed).items():
                taken, label = RECORDS * TURNS, counted(members, "member")
                figures += [
                    Figure("shares", f"{label}: records", "1000/s", "higher", system, taken / sum(found.took) / 1000),
                    Figure("shares", f"{label}: CPU", "s/million", "lower", system, found.cpu_seconds / taken * 1e6),
                ]  # fmt: skip

        def committed(cluster: Cluster, turn: int) -> list[float]:
            return client.turn(cluster, "commits", f"commits-{turn}", TOPIC, COMMIT_SECONDS)

        for system, found in _in_turns(clusters, committed).items():
            for share, label in ((0.5, "p50"), (0.99, "p99")):
                took = percentile(found.took, share) * 1000
                figures.append(
                    Figure("shares", f"acknowledgement {label}", "ms", "lower", system, took)
                )
    return figures


def tasks_bench(systems: Mapping[str, Opener]) -> list[Figure]:
    """Measures from the start of an application until each of its tasks is active."""
    with _running(systems, "Tasks.java", "input", TASKS) as (clusters, client):

        def started(cluster: Cluster, turn: int) -> list[float]:
            return client.turn(cluster, f"application-{turn}", "input", THREADS, TASKS)

        for cluster in clusters.values():
            started(cluster, TURNS)
        figures = []
        for system, found in _in_turns(clusters, started).items():
            label, seconds = f"{TASKS} tasks", sum(found.took) / TURNS
            cpu = found.cpu_seconds / TURNS
            figures += [
                Figure("streams-tasks", f"{label}: stable", "s", "lower", system, seconds),
                Figure("streams-tasks", f"{label}: CPU", "s", "lower", system, cpu),
            ]
    return figures


@contextmanager
def _running(
    systems: Mapping[str, Opener], program: str, topic: str, partitions: int
) -> Iterator[tuple[Mapping[str, Cluster], JavaClients]]:
    """Yields a cluster of each system with the topic, and the client; no cluster if the client cannot run here."""
    if (reason := apache_kafka.why_not()) is not None:
        print(f"bench: Kafka's own client is left out, {reason}", file=sys.stderr)
        systems = {}
    with ExitStack() as stack, JavaClients(program) as client:
        clusters = {
            system: stack.enter_context(open_cluster(1, 1, SETTINGS))
            for system, open_cluster in systems.items()
        }
        for cluster in clusters.values():
            create_topic(cluster, topic, partitions, 1)
        yield clusters, client


def _in_turns(
    clusters: Mapping[str, Cluster], take_turn: Callable[[Cluster, int], list[float]]
) -> Mapping[str, _Measured]:
    found = {system: _Measured() for system in clusters}
    order = list(clusters)
    for turn in range(TURNS):
        for system in order:
            before = cpu_seconds(clusters[system].pids())
            found[system].took += take_turn(clusters[system], turn)
            found[system].cpu_seconds += cpu_seconds(clusters[system].pids()) - before
        order.reverse()
    return found
