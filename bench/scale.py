"""`./dev bench scale [PART ...] [--only ours|kafka]`: metadata at scale, compared with its marks and with Apache Kafka.

Parts: image (memory, reading a snapshot, one change; in this process), steps (longest step of the loop), topics
(created one by one), wide-topic (9,999 partitions at once), grow (a topic up to 100,000 partitions), many-topics
(10,000 × 10), restart (of a broker with a third of 50,000 partitions). Nodes are 3 + 3. CPU seconds of all nodes are
shown in addition to wall-clock seconds, which are valid on a quiet machine only.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from bench import scale_decisions, scale_image, scale_steps
from bench.accounting import cpu_seconds, measured, rss_mib
from bench.clusters import SYSTEMS, Opener, systems_of
from bench.scale_client import (
    all_applied,
    create_partitions,
    create_topics,
    known_everywhere,
    open_clients,
    quorum_epoch,
    seconds_until,
)
from bench.sizes import sized

WIDE = 9_999  # Kafka refuses a request for 10,000 partitions
STEP = 9_000
DIVISOR = sized(1, 100)  # of every size


class Row(NamedTuple):
    """A row. `mark` is our goal; `published` is Kafka's figure if it is not measured here."""

    part: str
    name: str
    value: str
    mark: str = ""
    published: str = ""


def image(_: Opener, system: str, size: int) -> Iterator[Row]:
    if system != "ours":
        return
    for shape in (
        scale_image.Shape(1, 100_000 // size),
        scale_image.Shape(10_000 // size, 10),
        scale_image.Shape(100_000 // size, 10),
    ):
        found = scale_image.measure(shape)
        held, count = found.bytes_held / 1e6, shape.in_all
        name = f"{shape} partitions, RF 3"
        in_100k = f"{held / count * 100_000:.0f} MB in 100,000"
        yield Row(
            "image",
            f"{name}: memory",
            f"{held:.0f} MB, {held * 1e6 / count:.0f} B each, {in_100k}",
            "150 MB in 100,000",
            "(heap of a broker, 50,000: 300 MB)",
        )
        yield Row("image", f"{name}: peak while read", f"{found.bytes_peak / 1e6:.0f} MB")
        yield Row("image", f"{name}: snapshot", f"{found.snapshot_bytes / 1e6:.1f} MB")
        yield Row("image", f"{name}: snapshot read", f"{found.read_seconds:.2f} CPU s", "5 s in 100,000")  # fmt: skip
        yield Row("image", f"{name}: snapshot written", f"{found.write_seconds:.2f} CPU s")
        yield Row("image", f"{name}: one change", f"{found.change_seconds * 1e6:.0f} CPU µs", "100 µs")  # fmt: skip


def steps(_: Opener, system: str, size: int) -> Iterator[Row]:
    if system != "ours":
        return
    for shape in (scale_image.Shape(1, 100_000 // size), scale_image.Shape(10_000 // size, 10)):
        for what, measure in (
            ("a snapshot applied", scale_steps.of_a_snapshot),
            ("batches of 10,000 records applied", scale_steps.of_batches),
        ):
            value = f"{measure(shape) * 1000:.0f} CPU ms"
            yield Row("steps", f"{shape} partitions: longest step, {what}", value, "50 ms")
    for what, seconds in scale_decisions.longest_steps().items():
        value = f"{seconds * 1000:.0f} CPU ms"
        yield Row("steps", f"controller: longest step, {what}", value, "50 ms")


def topics(open_cluster: Opener, system: str, size: int) -> Iterator[Row]:
    count = (1000 if system == "ours" else 200) // size
    with open_cluster(3, 3, {}) as cluster, open_clients(cluster) as clients:
        create_topics(clients[0], {f"warm-{number}": 1 for number in range(20)})
        with measured(cluster.pids()) as usage:
            for number in range(count):
                create_topics(clients[0], {f"topic-{number}": 1})
    value = f"{count / usage.seconds:.0f}/s, {usage.cpu_seconds / count * 1000:.1f} CPU ms each"
    yield Row("topics", f"{count:,} topics one by one", value, "93/s", "18.6/s, 53 ms")


def wide_topic(open_cluster: Opener, _: str, size: int) -> Iterator[Row]:
    count = WIDE // size
    with open_cluster(3, 3, {}) as cluster, open_clients(cluster) as clients:
        create_topics(clients[0], {"warm": 30})
        seconds_until(lambda: all_applied(clients, "warm", 30))
        before = cpu_seconds(cluster.pids())
        began = time.perf_counter()
        create_topics(clients[0], {"wide": count})
        answered = time.perf_counter() - began
        seconds_until(lambda: known_everywhere(clients, "wide", count))
        known = time.perf_counter() - began
        seconds_until(lambda: all_applied(clients, "wide", count, of_each=10))
        served = time.perf_counter() - began
        used = cpu_seconds(cluster.pids()) - before
        seconds_until(lambda: all_applied(clients, "wide", count))
        opened = time.perf_counter() - began
        time.sleep(sized(5, 0))  # background work belongs to it
        used_in_all = cpu_seconds(cluster.pids()) - before
    name = f"a topic of {count:,} partitions, RF 3"
    yield Row("wide-topic", f"{name}: answered", f"{answered:.2f} s", "", "0.29 s")
    yield Row("wide-topic", f"{name}: in every broker's metadata", f"{known:.2f} s")
    yield Row("wide-topic", f"{name}: leaders serve it", f"{served:.2f} s, {used:.1f} CPU s", "3 s")
    yield Row(
        "wide-topic",
        f"{name}: every log was opened",
        f"{opened:.2f} s, {used_in_all:.1f} CPU s",
        "",
        "15–18 s, 27 CPU s",
    )


def grow(open_cluster: Opener, system: str, size: int) -> Iterator[Row]:
    """Grows a topic with RF 1 by 9,000 partitions per request; the last step is the cost of a change in a large
    topic.
    """
    if system != "ours":
        return
    last = 100_000 // size
    with open_cluster(3, 3, {}) as cluster, open_clients(cluster) as clients:
        present, epoch = STEP // size, quorum_epoch(clients[0])
        create_topics(clients[0], {"grows": present}, replication=1)
        with measured(cluster.pids()) as usage:
            while present < last:
                present = min(present + STEP // size, last)
                began = time.perf_counter()
                create_partitions(clients[0], "grows", present)
                step = time.perf_counter() - began
            seconds_until(lambda: known_everywhere(clients, "grows", last, pause=1.0))
        elections = quorum_epoch(clients[0]) - epoch
        memory = max(rss_mib(pid) for pid in cluster.pids())
        began_cpu = cpu_seconds(cluster.pids())
        for number in range(50):
            create_topics(clients[0], {f"small-{number}": 1})
        each = (cpu_seconds(cluster.pids()) - began_cpu) / 50
    name = f"one topic grown to {last:,} partitions"
    yield Row("grow", name, f"{usage.seconds:.1f} s, {usage.cpu_seconds:.1f} CPU s")
    yield Row("grow", f"{name}: the last {STEP // size:,} answered", f"{step:.2f} s")
    yield Row("grow", f"{name}: elections meanwhile", str(elections), "0")
    yield Row("grow", f"{name}: RSS of the largest node", f"{memory:.0f} MiB")
    yield Row("grow", f"{name}: then a small topic", f"{each * 1000:.1f} CPU ms")


def many_topics(open_cluster: Opener, system: str, size: int) -> Iterator[Row]:
    if system != "ours":
        return
    count = 10_000 // size
    with open_cluster(3, 3, {}) as cluster, open_clients(cluster) as clients:
        epoch = quorum_epoch(clients[0])
        with measured(cluster.pids()) as usage:
            for start in range(0, count, 500):
                names = {f"topic-{n}": 10 for n in range(start, min(start + 500, count))}
                create_topics(clients[0], names)
            last = f"topic-{count - 1}"
            seconds_until(lambda: known_everywhere(clients, last, 10))
        elections = quorum_epoch(clients[0]) - epoch
        memory = [rss_mib(pid) for pid in cluster.pids()]
    name = f"{count:,} topics × 10 partitions, RF 3, 500 a request"
    yield Row("many-topics", name, f"{usage.seconds:.1f} s, {usage.cpu_seconds:.1f} CPU s")
    yield Row("many-topics", f"{name}: elections meanwhile", str(elections), "0")
    yield Row("many-topics", f"{name}: RSS of the largest node", f"{max(memory):.0f} MiB")


def restart(open_cluster: Opener, _: str, size: int) -> Iterator[Row]:
    """Measures from the start of the process until every partition has a leader again, and until every log has served a
    request.
    """
    each, count = 9_999 // size, 5
    with open_cluster(3, 3, {}) as cluster, open_clients(cluster) as clients:
        for number in range(count):
            create_topics(clients[0], {f"topic-{number}": each}, replication=1)
        for number in range(count):
            seconds_until(lambda n=number: all_applied(clients, f"topic-{n}", each))
        victim = max(clients)
        began = time.perf_counter()
        cluster.stop(victim)
        stopped = time.perf_counter() - began
        before = set(cluster.pids())
        began = time.perf_counter()
        cluster.start(victim)
        with open_clients(cluster) as again:
            done = []
            for asked in (10, None):
                for number in range(count):
                    seconds_until(
                        lambda n=number, a=asked: all_applied(again, f"topic-{n}", each, a)
                    )
                used = cpu_seconds([pid for pid in cluster.pids() if pid not in before])
                done.append(f"{time.perf_counter() - began:.2f} s, {used:.2f} CPU s")
    name = f"a broker with {each * count // 3:,} partitions"
    yield Row("restart", f"{name}: stopped", f"{stopped:.2f} s")
    yield Row("restart", f"{name}: started, leads and serves", done[0], "3 s")
    yield Row("restart", f"{name}: started, every log opened", done[1], "", "30 s")


PARTS = {
    "image": image,
    "steps": steps,
    "topics": topics,
    "wide-topic": wide_topic,
    "grow": grow,
    "many-topics": many_topics,
    "restart": restart,
}


@contextmanager
def _timed(part: str, system: str) -> Iterator[None]:
    began = time.perf_counter()
    print(f"bench: {part} on {system}", file=sys.stderr, flush=True)
    yield
    print(f"bench: {part}: {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="./dev bench scale", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS])
    parser.add_argument("--only", choices=SYSTEMS)
    arguments = parser.parse_args(words)
    systems = systems_of(arguments.only)
    rows: dict[tuple[str, str], dict[str, Row]] = {}
    for part in arguments.parts or PARTS:
        for system in systems:
            with _timed(part, system):
                for row in PARTS[part](SYSTEMS[system], system, DIVISOR):
                    rows.setdefault((part, row.name), {})[system] = row
    print_table(rows)


def print_table(rows: Mapping[tuple[str, str], Mapping[str, Row]]) -> None:
    """Prints the table, with Kafka's published figures in brackets."""
    print(f"{'figure':<72}{'ours':<44}{'mark':<20}{'Kafka':<20}")
    for (part, name), by_system in rows.items():
        mine, theirs = by_system.get("ours"), by_system.get("kafka")
        known = mine or theirs
        assert known is not None
        kafkas = theirs.value if theirs else f"[{known.published}]" if known.published else ""
        print(f"{part + ': ' + name:<72}{mine.value if mine else '':<44}{known.mark:<20}{kafkas}")


if __name__ == "__main__":
    main(sys.argv[1:])
