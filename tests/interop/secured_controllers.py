"""A node of ours or of Apache Kafka 4.4, with the same file, and a controller listener for each kind of login."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from cryptography.hazmat.primitives import serialization

from tests.cluster.login_node import LoginNode
from tests.cluster.processes import until
from tests.interop import apache_kafka
from tests.interop.conftest import trimaran
from tests.node.oauth.provider import AUDIENCE, ISSUER
from trimaran.node.security.oauthbearer import OAUTHBEARER_MODULE
from trimaran.node.security.plain import PLAIN_MODULE
from trimaran.node.security.scram import SCRAM_MODULE

PROPERTIES = """
node.id=1
process.roles=broker,controller
controller.quorum.voters=1@localhost:{CONTROLLER}
controller.listener.names=CONTROLLER,LOGINS,TLS
inter.broker.listener.name=INTERNAL
listener.security.protocol.map=CONTROLLER:PLAINTEXT,INTERNAL:PLAINTEXT,LOGINS:SASL_SSL,TLS:SSL
listeners=CONTROLLER://localhost:{CONTROLLER},INTERNAL://localhost:{INTERNAL},LOGINS://localhost:{LOGINS},\
TLS://localhost:{TLS}
log.dirs={dir}/data
offsets.topic.replication.factor=1
ssl.keystore.type=PEM
ssl.keystore.location={dir}/server.pem
ssl.truststore.type=PEM
ssl.truststore.location={dir}/ca.pem
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER
sasl.oauthbearer.jwks.endpoint.url=file://{dir}/jwks.json
sasl.oauthbearer.expected.issuer={issuer}
sasl.oauthbearer.expected.audience={audience}
listener.name.logins.plain.sasl.jaas.config={plain} required user_alice="secret";
listener.name.logins.scram-sha-256.sasl.jaas.config={scram} required;
listener.name.logins.scram-sha-512.sasl.jaas.config={scram} required;
listener.name.logins.oauthbearer.sasl.jaas.config={oauth} required;
listener.name.tls.ssl.client.auth=required
"""
OF_KAFKA = "listener.name.logins.oauthbearer.sasl.server.callback.handler.class={handler}\n"
HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
USERS = [
    word
    for bits in (256, 512)
    for word in ("--add-scram", f"SCRAM-SHA-{bits}=[name=alice,password=secret]")
]
STARTED = {"ours": "[KafkaServer id=1] started", "kafka": "Kafka Server started"}


def pkcs8(pem: str) -> str:
    """Returns a key in the format that Java reads."""
    key = serialization.load_pem_private_key(pem.encode(), None)
    form = serialization.PrivateFormat.PKCS8
    plain = serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, form, plain).decode()


class SecuredControllers(LoginNode):
    """The node; `kind` is "ours" or "kafka". The clients' files are those of a `LoginNode`."""

    def __init__(self, kind: str, directory: Path, ports) -> None:
        super().__init__(directory, ports)
        self.kind = kind
        self.present(self.certificates.server)

    def present(self, pair: tuple[str, str]) -> None:
        """Sets the certificate that the node uses from its next start on."""
        key, chain = pair
        (self.dir / "server.pem").write_text(pkcs8(key) + chain)

    @contextlib.contextmanager
    def running(self) -> Iterator[SecuredControllers]:
        file = self.dir / "server.properties"
        names = {"issuer": ISSUER, "audience": AUDIENCE, "plain": PLAIN_MODULE}
        modules = {"scram": SCRAM_MODULE, "oauth": OAUTHBEARER_MODULE, "dir": self.dir}
        text = PROPERTIES + (OF_KAFKA.format(handler=HANDLER) if self.kind == "kafka" else "")
        file.write_text(text.format(**self.ports, **names, **modules))
        if not (self.dir / "data").exists():
            cluster_id = trimaran("storage", "random-uuid").stdout.strip()
            self._storage("format", "-t", cluster_id, "-c", str(file), *USERS)
        with self._started(file) as process:
            log = self.dir / "node.log"
            line = STARTED[self.kind]
            until(lambda: line in log.read_text() or process.poll() is not None, line, 90)
            assert process.poll() is None, log.read_text()[-3000:]
            yield self

    def _storage(self, *arguments: str) -> None:
        if self.kind == "kafka":
            apache_kafka.tool("storage", *arguments)
        else:
            trimaran("storage", *arguments)

    @contextlib.contextmanager
    def _started(self, file: Path) -> Iterator[subprocess.Popen[bytes]]:
        command = [sys.executable, "-m", "trimaran", "server", "start", "-c", str(file)]
        if self.kind == "kafka":
            java, *rest = apache_kafka.java("kafka.Kafka", str(file), level="info")
            allowed = (
                f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=file://{self.dir}/jwks.json"
            )
            command = [java, allowed, *rest]
        with (self.dir / "node.log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            yield process
        finally:
            process.terminate()
            process.wait(30)
