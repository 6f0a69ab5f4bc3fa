"""The tests in the Go module of segmentio/kafka-go, for the packages that need a broker. The tests name broker 1,
`localhost:9092` and, with SASL, `localhost:9093`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from tests.interop.apache_kafka import VERSION as KAFKA_VERSION
from tests.interop.suites.clusters import cluster
from tests.interop.suites.go_tests import Package
from trimaran.node.security.plain import PLAIN_MODULE
from trimaran.node.security.scram import SCRAM_MODULE

NAME = "kafka-go"
VERSION = "0.4.51"
NEEDS = ("go",)
STARTS_NODES = True
PACKAGE = Package(NAME, "github.com/segmentio/kafka-go", VERSION)
PATHS = (".", "sasl", "topics")
BROKER = 1
# The settings in its docker-compose-400.yml.
SETTINGS = {
    "broker.rack": None,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "default.replication.factor": "1",
    "message.max.bytes": "200000000",
    "num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "super.users": "User:adminscram256;User:adminscram512;User:adminplain;User:ANONYMOUS",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.replication.factor": "1",
}
LISTENERS = {
    "listeners": "B://{address},CLIENTS://localhost:9092,SASL://localhost:9093",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,B:PLAINTEXT,CLIENTS:PLAINTEXT,SASL:SASL_PLAINTEXT",
    "listener.name.sasl.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_adminplain="admin-secret";',
}
LISTENERS |= {
    f"listener.name.sasl.scram-sha-{bits}.sasl.jaas.config": f"{SCRAM_MODULE} required;"
    for bits in (256, 512)
}
USERS = tuple(
    f"--add-scram=SCRAM-SHA-{bits}=[name=adminscram{bits},password=admin-secret-{bits}]"
    for bits in (256, 512)
)
# The helper of these tests calls an unset function, which crashes the whole program.
CRASHING = (
    "^TestReaderConsumerGroup$/^(consumer_group_commits_on_close"
    "|verify_offset_committed(_when_using_interval_committer)?)$"
)
# The project's own pipelines skip the tests that treat a topic as a Go connection, which never passed on Kafka 2.3 or
# newer.
ENVIRON = {"KAFKA_SKIP_NETTEST": "1", "KAFKA_VERSION": KAFKA_VERSION}
RUN_SECONDS_MAX = 1500


def run(kind: str, work: Path, only: Iterable[str] = ()) -> dict[str, str]:
    """Returns `passed`, `failed` or `skipped` by the name of each test and subtest; `only` are names of tests."""
    nodes = work / "nodes"
    nodes.mkdir()
    states: dict[str, str] = {}
    with cluster(kind, nodes, SETTINGS, brokers=(BROKER,), of_brokers=LISTENERS, formatting=USERS):
        for path in PATHS:
            states |= replace(PACKAGE, path=path).run(
                work / f"{path.strip('.') or 'kafka'}.log",
                {**os.environ, **ENVIRON},
                RUN_SECONDS_MAX,
                only=only,
                options=(f"-test.skip={CRASHING}",),
            )
    return states
