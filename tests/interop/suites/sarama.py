"""The functional tests in the Go module of sarama. They reach brokers 1 to 5 at fixed ports, through toxiproxy, which
breaks connections; it is a Go module, too. Some tests stop a broker, or read its log, by `docker compose`. Tests that
run Kafka's tools in a container skip themselves.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess
import urllib.request
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.interop.apache_kafka import CACHE
from tests.interop.apache_kafka import VERSION as KAFKA_VERSION
from tests.interop.controllers import Controllers
from tests.interop.suites import docker_compose
from tests.interop.suites.building import command
from tests.interop.suites.clusters import cluster
from tests.interop.suites.go_tests import Package, whole

NAME = "sarama"
VERSION = "1.61.1"
NEEDS = ("go",)
STARTS_NODES = True
PACKAGE = Package(NAME, "github.com/IBM/sarama", VERSION, tags="functional")
TOXIPROXY = "github.com/Shopify/toxiproxy/v2/cmd/server@v2.12.0"
BROKERS = (1, 2, 3, 4, 5)
# The settings in its docker-compose.yml.
SETTINGS = {
    "auto.create.topics.enable": "false",
    "broker.rack": "{id}",
    "default.replication.factor": "2",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.replication.factor": "2",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.replication.factor": "2",
}
# The advertised addresses are those of the proxy.
ADVERTISED = {"advertised.listeners": "B://{address},CLIENTS://127.0.0.1:2909{id}"}
RUN_SECONDS_MAX = 1800


def run(kind: str, work: Path, only: Iterable[str] = ()) -> dict[str, str]:
    """Returns `passed`, `failed` or `skipped` by test name; `only` are names. The output stays in `work`."""
    nodes = work / "nodes"
    nodes.mkdir()
    programs = work / "bin"
    programs.mkdir()
    with (
        cluster(
            kind, nodes, SETTINGS, "PLAINTEXT", brokers=BROKERS, of_brokers=ADVERTISED
        ) as found,
        _toxiproxy(work, found) as address,
        docker_compose.serving(found, programs),
    ):
        environ = {
            **os.environ,
            "KAFKA_VERSION": KAFKA_VERSION,
            "PATH": f"{programs}:{os.environ['PATH']}",
            "TOXIPROXY_ADDR": address,
        }
        log = work / "functional.log"
        return whole(PACKAGE.run(log, environ, RUN_SECONDS_MAX, only=only or _names()))


def _names() -> list[str]:
    """Returns the functional tests; the others need no broker."""
    files = PACKAGE.folder().glob("functional_*test.go")
    return [
        n
        for f in files
        for n in re.findall(r"^func (Test(?!Main\b)\w+)", f.read_text(), re.MULTILINE)
    ]


@contextlib.contextmanager
def _toxiproxy(work: Path, nodes: Controllers) -> Iterator[str]:
    """Runs toxiproxy with a proxy for each broker; yields the address of its API."""
    folder = CACHE / "toxiproxy"
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "server").exists():
        environ = {**os.environ, "GOBIN": str(folder)}
        command("go", "install", TOXIPROXY, environ=environ, folder=folder)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    proxies = work / "toxiproxy.json"
    proxies.write_text(
        json.dumps(
            [
                {
                    "name": f"kafka{i}",
                    "listen": f"127.0.0.1:2909{i}",
                    "upstream": nodes.client_bootstrap(i),
                    "enabled": True,
                }
                for i in BROKERS
            ]
        )
    )
    with (work / "toxiproxy.log").open("wb") as log:
        server = subprocess.Popen(
            [folder / "server", "-port", str(port), "-config", proxies], stdout=log, stderr=log
        )
    address = f"http://127.0.0.1:{port}"
    try:
        _wait_for(server, address)
        yield address
    finally:
        server.kill()
        server.wait()


def _wait_for(server: subprocess.Popen[bytes], address: str) -> None:
    while True:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{address}/proxies") as answer:
            # The proxies are created before the first answer, up to one whose port another program has.
            assert len(json.load(answer)) == len(BROKERS), (
                "a port is in use; toxiproxy.log says which"
            )
            return
        assert server.poll() is None, "toxiproxy ended; its log says why"
