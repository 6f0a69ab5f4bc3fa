"""Nodes of ours or of Apache Kafka 4.4, with the same files. All logins are by Kerberos, also among the nodes."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.cluster.processes import ROOT, trimaran, until
from tests.interop import apache_kafka
from tests.interop.kerberos_realm import REALM, Realm
from trimaran.node.security.kerberos import KERBEROS_MODULE

PROPERTIES = """
node.id={id}
process.roles={roles}
controller.quorum.voters=1@localhost:{controller}
controller.listener.names=CONTROLLER
inter.broker.listener.name=CLIENTS
listener.security.protocol.map=CONTROLLER:SASL_PLAINTEXT,CLIENTS:SASL_PLAINTEXT,STALE:SASL_PLAINTEXT
listeners={listeners}
log.dirs={dir}/data-{id}
offsets.topic.replication.factor=1
group.initial.rebalance.delay.ms=0
sasl.enabled.mechanisms=GSSAPI
sasl.mechanism.inter.broker.protocol=GSSAPI
sasl.mechanism.controller.protocol=GSSAPI
sasl.kerberos.service.name=kafka
sasl.kerberos.principal.to.local.rules=RULE:[2:$1-$2](job-.*)s/-/_/g/U,DEFAULT
listener.name.controller.gssapi.sasl.jaas.config={own}
listener.name.clients.gssapi.sasl.jaas.config={own}
listener.name.stale.gssapi.sasl.jaas.config={stale}
listener.name.clients.gssapi.connections.max.reauth.ms=4000
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:kafka;User:admin
"""
STARTED = {"ours": "[KafkaServer id={id}] started", "kafka": "Kafka Server started"}
START_SECONDS_MAX = 180
STOP_SECONDS_MAX = 30


def jaas(keytab: Path, principal: str) -> str:
    """Returns the login module of a node or a client."""
    options = f'useKeyTab=true storeKey=true keyTab="{keytab}" principal="{principal}@{REALM}"'
    return f"{KERBEROS_MODULE} required {options};"


class KerberosNodes:
    """Node 1 is controller and broker, any other is a broker. The service of the listener STALE is `stale`."""

    def __init__(self, kind: str, realm: Realm, ports, count: int) -> None:
        self.kind, self.realm, self.count = kind, realm, count
        self.dir = realm.dir / kind
        self.dir.mkdir()
        self.controller = next(ports)
        self.clients = {number: next(ports) for number in range(1, count + 1)}
        self.stale = next(ports)
        own = jaas(realm.keytab("kafka/localhost"), "kafka/localhost")
        stale = jaas(realm.keytab("stale/localhost"), "stale/localhost")
        for number in self.clients:
            listeners = [f"CLIENTS://localhost:{self.clients[number]}"]
            if number == 1 and kind == "ours":
                listeners.append(f"STALE://localhost:{self.stale}")
            if number == 1:
                listeners.append(f"CONTROLLER://localhost:{self.controller}")
            text = PROPERTIES.format(
                id=number,
                roles="broker,controller" if number == 1 else "broker",
                controller=self.controller,
                listeners=",".join(listeners),
                dir=self.dir,
                own=own,
                stale=stale,
            )
            if number == 1:
                text += "listener.name.stale.sasl.kerberos.service.name=stale\n"
            self._file(number).write_text(text)

    @property
    def bootstrap(self) -> str:
        return f"localhost:{self.clients[1]}"

    def _file(self, number: int) -> Path:
        return self.dir / f"{number}.properties"

    def _log(self, number: int) -> Path:
        return self.dir / f"{number}.log"

    @contextlib.contextmanager
    def running(self) -> Iterator[KerberosNodes]:
        """Formats and starts the nodes; stops them at the end of the block."""
        cluster_id = trimaran("storage", "random-uuid").stdout.strip()
        with contextlib.ExitStack() as started:
            for number in self.clients:
                words = ("format", "-t", cluster_id, "-c", str(self._file(number)))
                if self.kind == "kafka":
                    apache_kafka.tool("storage", *words)
                else:
                    trimaran("storage", *words, environ=self.realm.environ)
            processes = {
                number: started.enter_context(self._started(number)) for number in self.clients
            }
            for number, process in processes.items():
                line, log = STARTED[self.kind].format(id=number), self._log(number)

                def is_ready(log=log, line=line, process=process) -> bool:
                    return line in log.read_text() or process.poll() is not None

                until(is_ready, line, START_SECONDS_MAX)
                assert process.poll() is None, log.read_text()[-3000:]
            yield self

    @contextlib.contextmanager
    def _started(self, number: int) -> Iterator[subprocess.Popen[bytes]]:
        command = [
            sys.executable,
            "-m",
            "trimaran",
            "server",
            "start",
            "-c",
            str(self._file(number)),
        ]
        if self.kind == "kafka":
            krb5 = f"-Djava.security.krb5.conf={self.realm.conf}"
            jvm = (krb5, *apache_kafka.SHORT_LIVED)
            command = apache_kafka.java(
                "kafka.Kafka", str(self._file(number)), level="info", jvm=jvm
            )
        with self._log(number).open("wb") as log:
            process = subprocess.Popen(
                command, cwd=ROOT, env=self.realm.environ, stdout=log, stderr=log
            )
        try:
            yield process
        finally:
            process.terminate()
            process.wait(STOP_SECONDS_MAX)

    def client_file(self, login: str, name: str, service: str = "kafka") -> Path:
        """Returns the file of a client with this login module."""
        file = self.dir / f"{name}.client.properties"
        lines = (
            "security.protocol=SASL_PLAINTEXT",
            "sasl.mechanism=GSSAPI",
            f"sasl.kerberos.service.name={service}",
            f"sasl.jaas.config={login}",
        )
        file.write_text("\n".join(lines) + "\n")
        return file
