"""Our quorum with TLS, passwords and tokens, and a mirror that includes secrets."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.certificates import Certificates
from tests.chaos.mirror.quorums import SETTINGS, Quorum
from tests.cluster.processes import ROOT, trimaran, until
from trimaran.node.runtime.ports import port_of, reserve
from trimaran.node.security.plain import PLAIN_MODULE

CONTROLLERS, BROKERS = (1, 2, 3), (11, 12)
START_SECONDS, STOP_SECONDS = 180.0, 20.0
LOGIN = f'{PLAIN_MODULE} required username="admin" password="of-admin"'
ZOOKEEPER_USER = "mirror:of-the-mirror"
OF_NODES = {
    **SETTINGS,
    "super.users": "User:admin",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "CLIENTS",
    "listener.security.protocol.map": "CONTROLLER:SASL_SSL,CLIENTS:SASL_SSL",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.controller.plain.sasl.jaas.config": f'{LOGIN} user_admin="of-admin";',
    "listener.name.clients.plain.sasl.jaas.config": f'{LOGIN} user_admin="of-admin";',
    "delegation.token.secret.key": "of-tokens",
    "ssl.keystore.type": "PEM",
    "ssl.truststore.type": "PEM",
}
OF_CLIENTS = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": f"{LOGIN};",
    "ssl.truststore.type": "PEM",
    "trimaran.zk.auth": f"digest:{ZOOKEEPER_USER}",
    "trimaran.zk.mirror.secrets.enable": "true",
}


def _write(file: Path, keys: dict[str, str]) -> None:
    file.write_text("".join(f"{key}={value}\n" for key, value in keys.items()))


class Secured(Quorum):
    """A quorum with a process for each node, started from a file."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        with ExitStack() as held:
            self._ports = {
                node: port_of(held.enter_context(reserve())) for node in (*CONTROLLERS, *BROKERS)
            }
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self.bootstrap = self._addresses(BROKERS)
        self.controllers = self._addresses(CONTROLLERS)
        self.brokers = frozenset(BROKERS)
        self.zookeeper_user = ZOOKEEPER_USER
        certificates = Certificates()
        self._stores = {
            "ssl.keystore.location": str(folder / "node.pem"),
            "ssl.truststore.location": str(folder / "ca.pem"),
        }
        (folder / "node.pem").write_text("".join(certificates.server))
        (folder / "ca.pem").write_text(certificates.ca)
        self.properties = {**OF_CLIENTS, "ssl.truststore.location": str(folder / "ca.pem")}

    def _addresses(self, nodes: tuple[int, ...]) -> str:
        return ",".join(f"localhost:{self._ports[node]}" for node in nodes)

    def _file(self, node: int) -> Path:
        return self._folder / f"{node}.properties"

    def _log(self, node: int) -> Path:
        return self._folder / f"{node}.log"

    def format(self) -> None:
        cluster_id = trimaran("storage", "random-uuid").stdout.strip()
        voters = ",".join(f"{node}@localhost:{self._ports[node]}" for node in CONTROLLERS)
        for node, port in self._ports.items():
            is_broker = node in BROKERS
            listener = "CLIENTS" if is_broker else "CONTROLLER"
            own = {
                "node.id": str(node),
                "process.roles": "broker" if is_broker else "controller",
                "controller.quorum.voters": voters,
                "listeners": f"{listener}://localhost:{port}",
                "log.dirs": str(self._folder / str(node)),
            }
            _write(self._file(node), {**OF_NODES, **self._stores, **own})
            trimaran("storage", "format", "-t", cluster_id, "-c", self._file(node))

    def start(self) -> None:
        for node in self._ports:
            self.restart(node)
        for node in self._ports:
            line = f"[KafkaServer id={node}] started"
            until(lambda n=node, w=line: w in self._log(n).read_text(), line, START_SECONDS)

    def stop(self) -> None:
        for process in self._processes.values():
            process.send_signal(signal.SIGCONT)
            process.terminate()
        for process in self._processes.values():
            process.wait(STOP_SECONDS)

    def kill(self, controller: int) -> None:
        process = self._processes.pop(controller)
        process.kill()
        process.wait()

    def restart(self, controller: int) -> None:
        command = [sys.executable, "-m", "trimaran", "server", "start"]
        with self._log(controller).open("ab") as log:
            self._processes[controller] = subprocess.Popen(
                [*command, "-c", str(self._file(controller))], cwd=ROOT, stdout=log, stderr=log
            )

    def pid(self, controller: int) -> int:
        return self._processes[controller].pid


@contextmanager
def secured(folder: Path) -> Iterator[Quorum]:
    quorum = Secured(folder / "secured")
    quorum.format()
    try:
        quorum.start()
        yield quorum
    finally:
        quorum.stop()
