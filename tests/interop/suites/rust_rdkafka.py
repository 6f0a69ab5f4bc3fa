"""The integration tests in the crate of rust-rdkafka."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from tests.interop.apache_kafka import VERSION as KAFKA_VERSION
from tests.interop.suites.clusters import cluster
from tests.interop.suites.crate_tests import Crate

NAME = "rust-rdkafka"
VERSION = "0.39.0"
NEEDS = ("cargo", "make", "g++")
STARTS_NODES = True
# Three tests want a broker at port 9092 of this machine.
CHANGES = (
    (
        "tests/test_high_producers.rs",
        '"bootstrap.servers", "localhost")',
        '"bootstrap.servers", get_bootstrap_server())',
    ),
    (
        "tests/test_metadata.rs",
        "broker_metadata[0].port(), 9092",
        "broker_metadata[0].port().to_string(), get_bootstrap_server().rsplit(':').next().unwrap()",
    ),
)
CRATE = Crate("rdkafka", VERSION, changes=CHANGES)
# The settings in its docker-compose.yaml: one broker, with the id that the tests contain.
BROKER = 0
SETTINGS = {
    "default.replication.factor": "1",
    "num.partitions": "3",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.replication.factor": "1",
}
RUN_SECONDS_MAX = 900


def run(kind: str, work: Path, only: Iterable[str] = ()) -> dict[str, str]:
    """Returns `passed`, `failed` or `skipped` by test name; `only` are parts of names."""
    nodes = work / "nodes"
    nodes.mkdir()
    with cluster(kind, nodes, SETTINGS, brokers=(BROKER,)) as found:
        environ = {
            **os.environ,
            "KAFKA_HOST": found.bootstrap(BROKER),
            "KAFKA_VERSION": KAFKA_VERSION,
        }
        return CRATE.run(work, environ, RUN_SECONDS_MAX, only)
