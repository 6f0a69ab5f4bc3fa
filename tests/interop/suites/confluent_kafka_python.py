"""The integration tests of confluent-kafka for Python.

The sdist does not contain them, so they come from a checkout: `--sources FOLDER` with `confluent-kafka-python`. Instead
of a cluster with logins, they use a listener of the running broker.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from tests.interop.apache_kafka import CACHE
from tests.interop.suites import listeners, python_tests, sources
from tests.interop.suites.clusters import cluster

NAME = "confluent-kafka-python"
VERSION = "2.15.0"
NEEDS = ()
STARTS_NODES = True
SOURCES = "confluent-kafka-python"
PACKAGES = (
    f"confluent-kafka[avro,json,protobuf,rules,schemaregistry]=={VERSION}",
    "pytest==9.0.2",
    "pytest-asyncio==1.3.0",
    "pytest-timeout==2.4.0",
    "trivup==0.12.2",
)
BROKER = 1
PROTOCOLS = {"PLAIN": "PLAINTEXT", "LOGINS": "SASL_PLAINTEXT"}
USERS = {"sasl_user": "sasl_user"}
# Tests that need neither a schema registry nor tokens without a signature.
FOLDERS = (
    "admin",
    "consumer",
    "producer",
    "serialization",
    "share_consumer",
    "share_consumer_sasl",
)
# Tests in these folders that need a schema registry.
APART = "schema_registry"
# Tests of share consumers wait for the ends of locks.
LOCKS = {"group.share.record.lock.duration.ms": "1000"}
LOGINS = """

def create_sasl_cluster(conf={}):
    return create_byo_cluster(__import__("json").loads(os.environ["SUITE_LOGINS"]))
"""
RUN_SECONDS_MAX = 1800


def run(kind: str, work: Path, only: Iterable[str] = ()) -> dict[str, str]:
    """Returns `passed`, `failed` or `skipped` by test name; `only` are parts of names. Output stays in `work`."""
    python = python_tests.environment(CACHE / f"confluent-kafka-python-{VERSION}", *PACKAGES)
    folder = _copy(work)
    ports = listeners.free(PROTOCOLS, (BROKER,))
    nodes = work / "nodes"
    nodes.mkdir()
    logins = {
        "bootstrap.servers": f"{listeners.HOST}:{ports.port('LOGINS', BROKER)}",
        "security.protocol": PROTOCOLS["LOGINS"],
        "sasl.mechanism": "PLAIN",
        "sasl.username": "sasl_user",
        "sasl.password": USERS["sasl_user"],
    }
    of_brokers = ports.settings(work, USERS)
    settings = {**listeners.OF_ALL, **LOCKS}
    with cluster(kind, nodes, settings, brokers=(BROKER,), of_brokers=of_brokers):
        environ = {
            **os.environ,
            "BROKERS": f"{listeners.HOST}:{ports.port('PLAIN', BROKER)}",
            "SUITE_LOGINS": json.dumps(logins),
        }
        options = ("--timeout=600", *(f"tests/integration/{part}" for part in FOLDERS))
        found = python_tests.pytest(python, folder, work, environ, options, only, RUN_SECONDS_MAX)
    return {name: state for name, state in found.items() if APART not in name}


def _copy(work: Path) -> Path:
    checkout = sources.folder(SOURCES)
    assert checkout
    folder = work / "confluent-kafka-python"
    shutil.copytree(checkout / "tests", folder / "tests")
    with (folder / "tests" / "integration" / "conftest.py").open("a") as conftest:
        conftest.write(LOGINS)
    return folder
