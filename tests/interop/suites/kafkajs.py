"""The tests of KafkaJS that need a broker. The npm package does not contain them, so they come from a checkout:
`--sources FOLDER` with `kafkajs`. They name ports of three brokers, each with plaintext, TLS, and SASL over TLS; these
are replaced in a copy.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

from tests.interop.apache_kafka import CACHE
from tests.interop.apache_kafka import VERSION as KAFKA_VERSION
from tests.interop.suites import javascript, listeners, sources
from tests.interop.suites.clusters import cluster
from tests.interop.suites.listeners import HOST

NAME = "kafkajs"
VERSION = "2.2.4"
NEEDS = ("node", "npm")
STARTS_NODES = True
SOURCES = "kafkajs"
PACKAGES = (
    "execa@2.1.0",
    "glob@7.2.3",
    "jest@25.5.4",
    "jest-circus@25.5.4",
    "jest-extended@0.11.5",
    "jsonwebtoken@9.0.2",
    "mockdate@2.0.5",
    "semver@6.3.1",
    "uuid@3.4.0",
)
BROKERS = (0, 1, 2)
PROTOCOLS = {"PLAIN": "PLAINTEXT", "TLS": "SSL", "LOGINS": "SASL_SSL"}
# Values in the tests: the ports of broker 0, and the distance of the ports between brokers.
NAMED, STEP = {"PLAIN": 9092, "TLS": 9093, "LOGINS": 9094}, 3
USERS = {"test": "testtest", "bob": "bobbob", "alice": "alicealice"}
SCRAM = tuple(
    f"SCRAM-SHA-{bits}=[name=testscram,password=testtestscram={bits}]" for bits in (256, 512)
)
# The settings in its docker-compose.2_4.yml.
SETTINGS = {
    **listeners.OF_ALL,
    # With one rack per broker, placement may be uneven, on Kafka as on ours; a test expects three leaders on each.
    "broker.rack": None,
    "default.replication.factor": "2",
    "group.initial.rebalance.delay.ms": "0",
    "num.partitions": "2",
}
# Tests that need a broker; the others test only the client.
FOLDERS = ("admin", "broker", "cluster", "consumer", "network", "producer", "index.spec")
CONFIG = """module.exports = {
  moduleNameMapper: { testHelpers: '<rootDir>/testHelpers/index.js' },
  setupFilesAfterEnv: ['<rootDir>/testHelpers/setup.js'],
  testRunner: 'jest-circus/runner',
  testEnvironment: 'node',
  testRegex: '/src/.*spec\\.js$',
}
"""
ADD_PARTITIONS = """#!/bin/sh
exec {python} -m trimaran topics alter "$TOPIC" -p "$PARTITIONS" -b {broker}
"""
RUN_SECONDS_MAX = 2400


def run(kind: str, work: Path, only: Iterable[str] = ()) -> dict[str, str]:
    """Returns `passed`, `failed` or `skipped` by test name; `only` are parts of names. Output stays in `work`."""
    modules = _modules()
    ports = listeners.free(PROTOCOLS, BROKERS)
    folder = _copy(work, modules, ports)
    nodes = work / "nodes"
    nodes.mkdir()
    formatting = [word for user in SCRAM for word in ("--add-scram", user)]
    of_brokers = ports.settings(work, USERS)
    with cluster(
        kind, nodes, SETTINGS, brokers=BROKERS, of_brokers=of_brokers, formatting=formatting
    ):
        environ = {
            **os.environ,
            "KAFKA_VERSION": KAFKA_VERSION,
            "KAFKAJS_DEBUG_PROTOCOL_BUFFERS": "1",
            "KAFKAJS_NO_PARTITIONER_WARNING": "1",
            "NODE_ENV": "test",
        }
        program = modules / ".bin" / "jest"
        options = (f"--maxWorkers={javascript.AT_ONCE}", *(f"src/{part}" for part in FOLDERS))
        return javascript.jest(program, folder, work, environ, options, only, RUN_SECONDS_MAX)


def _modules() -> Path:
    """Returns the folder of the packages that the tests need, which are fetched once."""
    folder = CACHE / f"kafkajs-{VERSION}"
    complete = folder / "complete"
    if not complete.exists():
        shutil.rmtree(folder, ignore_errors=True)
        javascript.install(folder, *PACKAGES)
        complete.touch()
    return folder / "node_modules"


def _copy(work: Path, modules: Path, ports: listeners.Listeners) -> Path:
    checkout = sources.folder(SOURCES)
    assert checkout
    folder = work / "kafkajs"
    shutil.copytree(checkout, folder)
    (folder / "node_modules").symlink_to(modules, target_is_directory=True)
    (folder / "jest.config.js").write_text(CONFIG)
    script = folder / "scripts" / "addPartitions.sh"
    script.write_text(
        ADD_PARTITIONS.format(python=sys.executable, broker=f"{HOST}:{ports.port('PLAIN', 0)}")
    )
    named = {
        str(port + STEP * broker): str(ports.port(listener, broker))
        for listener, port in NAMED.items()
        for broker in BROKERS
    }
    specs = (p for part in ("admin", "broker") for p in (folder / "src" / part).rglob("*.spec.js"))
    for file in (folder / "testHelpers" / "index.js", *specs):
        text = re.sub(r"\b(909\d|9100)\b", lambda port: named[port[0]], file.read_text())
        file.write_text(re.sub(r"((?:getHost = \(\) =>|host:)) 'localhost'", rf"\1 '{HOST}'", text))
    return folder
