"""The integration tests in the crate of rskafka."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from tests.interop.suites.clusters import BROKERS, cluster
from tests.interop.suites.crate_tests import Crate
from trimaran.node.security.plain import PLAIN_MODULE

NAME = "rskafka"
VERSION = "0.6.0"
NEEDS = ("cargo", "cmake", "g++")
STARTS_NODES = True
# The locked version has a pointer that newer compilers refuse.
CRATE = Crate(NAME, VERSION, ("full",), {"rsasl": "2.3.1"})
# The settings in its docker-compose-kafka.yml.
SETTINGS = {"auto.create.topics.enable": "false", "sasl.enabled.mechanisms": "PLAIN"}
USER = {
    "listener.name.clients.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_admin="admin-secret";'
}
# These tests return at once, because they need a proxy, or Java's client inside the process.
APART = r"socks5|java"
RUN_SECONDS_MAX = 900


def run(kind: str, work: Path, only: Iterable[str] = ()) -> dict[str, str]:
    """Returns `passed`, `failed` or `skipped` by test name; `only` are parts of names."""
    nodes = work / "nodes"
    nodes.mkdir()
    with cluster(kind, nodes, SETTINGS, "SASL_PLAINTEXT", of_brokers=USER) as found:
        environ = {
            **os.environ,
            "KAFKA_CONNECT": found.bootstrap(*BROKERS),
            "KAFKA_SASL_CONNECT": found.client_bootstrap(BROKERS[0]),
            "TEST_BROKER_IMPL": "kafka",
            "TEST_INTEGRATION": "1",
        }
        states = CRATE.run(work, environ, RUN_SECONDS_MAX, only)
    return {name: state for name, state in states.items() if not re.search(APART, name)}
