"""aiokafka's own tests.

The sdist does not contain them, so they come from a checkout: `--sources FOLDER` with `aiokafka`. They start a
container; `for_aiokafka/` has fixtures that use a broker instead, with listeners for plaintext, TLS and logins.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from tests.interop.apache_kafka import CACHE
from tests.interop.apache_kafka import VERSION as KAFKA_VERSION
from tests.interop.suites import kafka_home, listeners, python_tests, sources
from tests.interop.suites.clusters import cluster

NAME = "aiokafka"
VERSION = "0.14.0"
NEEDS = kafka_home.NEEDS
STARTS_NODES = True
SOURCES = "aiokafka"
PACKAGES = (
    f"aiokafka=={VERSION}",
    "cramjam==2.11.0",
    "docker==7.1.0",
    "pytest==9.0.2",
    "pytest-asyncio==1.3.0",
    "pytest-mock==3.15.1",
    "pytest-timeout==2.4.0",
)
OF_OURS = Path(__file__).parent / "for_aiokafka" / "fixtures.py"
BROKER = 0
PROTOCOLS = {"PLAIN": "PLAINTEXT", "TLS": "SSL", "LOGINS": "SASL_PLAINTEXT", "BOTH": "SASL_SSL"}
USERS = {"admin": "admin", "test": "test", "test2": "test2"}
# The settings in its docker/scripts/start-kafka.sh.
SETTINGS = {**listeners.OF_ALL, "num.partitions": "2"}
RUN_SECONDS_MAX = 2400
# Parameters that are random in each run, after the number of the case.
DRAWN = re.compile(r"(_with_random_subscriptions_and_changes\[\d+)-\d+-\d+\]")


def run(kind: str, work: Path, only: Iterable[str] = ()) -> dict[str, str]:
    """Returns `passed`, `failed` or `skipped` by test name; `only` are parts of names. Output stays in `work`."""
    python = python_tests.environment(CACHE / f"aiokafka-{VERSION}", *PACKAGES)
    folder = _copy(work)
    ports = listeners.free(PROTOCOLS, (BROKER,))
    nodes = work / "nodes"
    nodes.mkdir()
    of_brokers = ports.settings(work, USERS) | {"listener.name.tls.ssl.client.auth": "required"}
    with cluster(kind, nodes, SETTINGS, brokers=(BROKER,), of_brokers=of_brokers) as found:
        environ = {
            **os.environ,
            "SUITE_BROKER": found.address(BROKER),
            "SUITE_KAFKA": str(kafka_home.write(work / "kafka")),
            "SUITE_KEYS": str(work),
            "SUITE_PORTS": ",".join(str(ports.port(name, BROKER)) for name in PROTOCOLS),
        }
        options = ("--timeout=600", f"--docker-image=kafka:{KAFKA_VERSION}", "--no-pull", "tests")
        states = python_tests.pytest(python, folder, work, environ, options, only, RUN_SECONDS_MAX)
        return {DRAWN.sub(r"\1]", name): state for name, state in states.items()}


def _copy(work: Path) -> Path:
    checkout = sources.folder(SOURCES)
    assert checkout
    folder = work / "aiokafka"
    shutil.copytree(checkout / "tests", folder / "tests")
    shutil.copy(checkout / "pyproject.toml", folder)
    (folder / "tests" / "conftest.py").rename(folder / "tests" / "conftest_of_aiokafka.py")
    shutil.copy(OF_OURS, folder / "tests" / "conftest.py")
    return folder
