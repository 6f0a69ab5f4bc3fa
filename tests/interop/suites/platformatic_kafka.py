"""The tests of @platformatic/kafka. The npm package does not contain them, so they come from a checkout: `--sources
FOLDER` with `platformatic-kafka`. They name ports of a cluster, of a single broker and of one with logins, which are
all replaced by those of one cluster in a copy.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from xml.etree import ElementTree as ET

from tests.interop.apache_kafka import CACHE
from tests.interop.suites import javascript, listeners, sources
from tests.interop.suites.clusters import cluster
from trimaran.node.security.oauthbearer import OAUTHBEARER_MODULE

NAME = "platformatic-kafka"
VERSION = "2.9.0"
NEEDS = ("node", "npm")
STARTS_NODES = True
SOURCES = "platformatic-kafka"
PACKAGES = (
    # This version runs TypeScript, unlike older ones.
    "node-linux-{machine}@22.22.0",
    "@node-rs/crc32@1.10.6",
    "@platformatic/dynamic-buffer@0.3.1",
    "@platformatic/wasm-utils@0.2.1",
    "@watchable/unpromise@1.0.2",
    "ajv-draft-04@1.0.0",
    "ajv@8.20.0",
    "avsc@5.7.9",
    "debug@4.4.3",
    "fast-jwt@6.2.4",
    "fastq@1.20.1",
    "lz4-napi@2.9.0",
    "mnemonist@0.40.4",
    "prom-client@15.1.3",
    "protobufjs@8.0.3",
    "scule@1.3.0",
    "snappy@7.3.3",
)
MACHINES = {"x86_64": "x64", "aarch64": "arm64"}
BROKERS = (1, 2, 3)
PROTOCOLS = {"PLAIN": "PLAINTEXT", "LOGINS": "SASL_PLAINTEXT"}
USERS = {"admin": "admin"}
# The settings in its docker-compose.yml.
SETTINGS = {
    **listeners.OF_ALL,
    "broker.rack": None,
    "allow.everyone.if.no.acl.found": "false",
    "default.replication.factor": "1",
    "group.initial.rebalance.delay.ms": "0",
    "num.partitions": "1",
    "transaction.state.log.min.isr": "1",
}
OF_BROKERS = {
    "connections.max.reauth.ms": "5000",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "listener.name.logins.oauthbearer.sasl.jaas.config": f"{OAUTHBEARER_MODULE} required;",
    "sasl.enabled.mechanisms": ",".join((*listeners.MECHANISMS, "OAUTHBEARER")),
    # The tokens of these tests have no signature; Kafka accepts them by default, and ignores this key.
    "trimaran.oauthbearer.unsecured.allowed": "true",
}
# These tests need Kerberos or a schema registry.
APART = ("sasl-gssapi", "confluent-schema-registry")
RUN_SECONDS_MAX = 2400


def run(kind: str, work: Path, only: Iterable[str] = ()) -> dict[str, str]:
    """Returns `passed`, `failed` or `skipped` by test name; `only` are parts of names. Output stays in `work`."""
    modules = _modules()
    ports = listeners.free(PROTOCOLS, BROKERS)
    folder = _copy(work, modules, ports)
    nodes = work / "nodes"
    nodes.mkdir()
    of_brokers = ports.settings(work, USERS) | OF_BROKERS
    with cluster(kind, nodes, SETTINGS, brokers=BROKERS, of_brokers=of_brokers):
        files = sorted(
            str(file.relative_to(folder))
            for part in ("apis", "clients", "issues")
            for file in (folder / "test" / part).rglob("*.test.ts")
            if not any(part in file.name for part in APART)
        )
        return _run(modules, folder, work, files, only)


def _run(
    modules: Path, folder: Path, work: Path, files: Iterable[str], only: Iterable[str]
) -> dict[str, str]:
    (node,) = modules.glob("node-linux-*/bin/node")
    report = work / "report.xml"
    options = ("--test-concurrency=4", "--test-timeout=300000", "--test-reporter=junit")
    chosen = [f"--test-name-pattern={'|'.join(only)}"] if only else []
    with (work / "node.log").open("wb") as log, report.open("wb") as output:
        subprocess.run(
            [node, "--test", *options, *chosen, *files],
            cwd=folder,
            env={**os.environ, "KAFKA_VERSION": "8.2.0"},  # Confluent's version, for Kafka 4.2
            stdout=output,
            stderr=log,
            check=False,
            timeout=RUN_SECONDS_MAX,
        )
    return _states(report, folder)


def _states(report: Path, folder: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for case in ET.parse(report).iter("testcase"):
        if case.get("name", "").endswith(".test.ts") and not len(case):
            continue  # a file without a chosen test
        outcomes = {part.tag for part in case}
        state = "skipped" if "skipped" in outcomes else "passed"
        if outcomes & {"failure", "error"}:
            state = "failed"
        file = Path(case.get("file", "")).name.removesuffix(".test.ts")
        test = f"{file}::{case.get('name')}"
        found[test] = "failed" if "failed" in (state, found.get(test)) else state
    return found


def _modules() -> Path:
    """Returns the folder of the packages that the tests need, which are fetched once."""
    folder = CACHE / f"platformatic-kafka-{VERSION}"
    complete = folder / "complete"
    if not complete.exists():
        shutil.rmtree(folder, ignore_errors=True)
        machine = MACHINES[os.uname().machine]
        javascript.install(folder, *(package.format(machine=machine) for package in PACKAGES))
        complete.touch()
    return folder / "node_modules"


def _copy(work: Path, modules: Path, ports: listeners.Listeners) -> Path:
    checkout = sources.folder(SOURCES)
    assert checkout
    folder = work / "platformatic-kafka"
    folder.mkdir()
    for part in ("src", "test", "package.json"):
        copy = shutil.copytree if (checkout / part).is_dir() else shutil.copy
        copy(checkout / part, folder / part)
    (folder / "node_modules").symlink_to(modules, target_is_directory=True)
    plain, logins = ports.prefixes["PLAIN"], ports.port("LOGINS", 1)
    for file in (folder / "test").rglob("*.ts"):
        text = re.sub(r"\b901(\d)\b", rf"{plain}\1", file.read_text())
        text = text.replace("localhost:9001", f"localhost:{plain}1")
        # Brokers announce this address, and some tests compare it with the one that they were given.
        text = text.replace("localhost:9002", f"{listeners.HOST}:{logins}")
        file.write_text(text.replace("broker.port + 10000", f"{plain}1"))
    return folder
