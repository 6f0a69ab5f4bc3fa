"""Apache's own applications of Kafka's transactions under faults: a claim that holds on Kafka must hold on our cluster.
The applications are MirrorMaker 2 in both directions, Kafka Streams with exactly_once_v2, Kafka Connect with an
exactly-once source (KIP-618), and Flink's connector with two-phase commits. A test of the suite is one claim of one
application (`claims.py`). Nodes are killed for a minute, or longer with `--minutes 10`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from tests.interop import apache_kafka
from tests.interop.suites.applications import connect, flink, mirror_maker, streams
from tests.interop.suites.applications.claims import Claims

NAME = "applications"
# the version of Streams; `java_programs` has that of Connect and MirrorMaker
VERSION = apache_kafka.VERSION
NEEDS = ("java", "javac", "mvn")
STARTS_NODES = True
APPLICATIONS: dict[str, Callable[[str, Path, Claims], None]] = {
    "mirror-maker": mirror_maker.run,
    "streams": streams.run,
    "connect": connect.run,
    "flink-incrementing": flink.run_incrementing,
    "flink-pooling": flink.run_pooling,
}


def run(kind: str, work: Path, only: Iterable[str] = ()) -> dict[str, str]:
    """Returns `passed` or `failed` by "APPLICATION: CLAIM"; `only` are applications. All logs stay in `work`."""
    states = {}
    for name in only or APPLICATIONS:
        folder = work / name
        folder.mkdir()
        with Claims(name, folder / "claims.log") as claims:
            APPLICATIONS[name](kind, folder, claims)
        states |= claims.states
    return states
