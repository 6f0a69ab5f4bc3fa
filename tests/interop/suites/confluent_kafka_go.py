"""The integration tests in the Go module of confluent-kafka-go, with each group protocol."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

from tests.interop.controllers import Controllers
from tests.interop.suites.clusters import BROKERS, cluster
from tests.interop.suites.go_tests import Package
from trimaran.node.security.plain import PLAIN_MODULE

NAME = "confluent-kafka-go"
VERSION = "2.11.1"
NEEDS = ("go", "gcc")
STARTS_NODES = True
# A topic's name is random, but each second begins the same sequence, so that two quick tests create the same topic.
# Flush(-1) returns at once, though its test needs all messages delivered.
CHANGES = (
    ("testhelpers_test.go", "time.Now().Unix()", "time.Now().UnixNano()"),
    ("txn_integration_test.go", "producer.Flush(-1)", "producer.Flush(60000)"),
)
PACKAGE = Package(
    NAME, "github.com/confluentinc/confluent-kafka-go/v2", VERSION, "kafka", changes=CHANGES
)
USER, PASSWORD = "testuser", "testpass"
SETTINGS = {
    "connections.max.reauth.ms": "10000",
    "sasl.enabled.mechanisms": "PLAIN",
    # The ACLs that it creates on the cluster would exclude the brokers, which are anonymous here.
    "super.users": "User:ANONYMOUS",
}
USERS = {
    "listener.name.clients.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_{USER}="{PASSWORD}";'
}
SUITE = "TestIntegration"
# The other tests use no broker.
TESTS = (SUITE, "TestTransactionalProducer", "TestTransactionalSendOffsets")
# The number of messages in throughput tests; the suite's default is two million.
RECORDS = 50_000
RUN_SECONDS_MAX = 900


def run(kind: str, work: Path, only: Iterable[str] = ()) -> dict[str, str]:
    """Returns the states by protocol and test name; `only` are names of tests without the protocol."""
    nodes = work / "nodes"
    nodes.mkdir()
    chosen = ("-testify.m", f"^({'|'.join(only)})$") if only else ()
    states: dict[str, str] = {}
    with cluster(kind, nodes, SETTINGS, "SASL_PLAINTEXT", of_brokers=USERS) as found:
        _configure(found)
        for protocol in ("classic", "consumer"):
            said = PACKAGE.run(
                work / f"{protocol}.log",
                {**os.environ, "TEST_CONSUMER_GROUP_PROTOCOL": protocol},
                RUN_SECONDS_MAX,
                only=(SUITE,) if only else TESTS,
                options=chosen,
            )
            states |= {
                f"{protocol}: {name.removeprefix(f'{SUITE}/')}": state
                for name, state in said.items()
                if name != SUITE
            }
    return states


def _configure(nodes: Controllers) -> None:
    """Writes the configuration file that the tests read from their folder."""
    settings = {
        "Brokers": nodes.bootstrap(*BROKERS),
        "BrokersSasl": nodes.client_bootstrap(*BROKERS),
        "SaslUsername": USER,
        "SaslPassword": PASSWORD,
        "SaslMechanism": "PLAIN",
        "PerfMsgCount": RECORDS,
        "PerfMsgSize": 100,
        "Config": ["api.version.request=true"],
    }
    (PACKAGE.folder() / "testconf.json").write_text(json.dumps(settings))
