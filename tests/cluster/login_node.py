"""A node of ours with a listener for each way to log in, and the credentials and files of its users and their
clients.
"""

from __future__ import annotations

import base64
import contextlib
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509 import load_pem_x509_certificates

from tests.certificates import Certificates
from tests.cluster.processes import ROOT, trimaran, until
from tests.node.oauth.provider import AUDIENCE, ISSUER, key_set, token
from trimaran.node.security.oauthbearer import OAUTHBEARER_MODULE
from trimaran.node.security.plain import PLAIN_MODULE
from trimaran.node.security.scram import SCRAM_MODULE
from trimaran.wire.blocking import BlockingConnection
from trimaran.wire.messages.create_delegation_token import CreateDelegationTokenRequest
from trimaran.wire.security.listener import ClientSecurity
from trimaran.wire.security.sasl.scram_client import ScramCredentials

STOP_SECONDS_MAX = 20
SASL = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER"
PROPERTIES = """
node.id=1
process.roles=broker,controller
controller.quorum.voters=1@localhost:{CONTROLLER}
controller.listener.names=CONTROLLER
inter.broker.listener.name=INTERNAL
listener.security.protocol.map=CONTROLLER:PLAINTEXT,INTERNAL:PLAINTEXT,LOGINS:SASL_SSL,DEV:SASL_PLAINTEXT,\
TLS:SSL,SHORT:SASL_SSL
listeners=CONTROLLER://localhost:{CONTROLLER},INTERNAL://localhost:{INTERNAL},LOGINS://localhost:{LOGINS},\
DEV://localhost:{DEV},TLS://localhost:{TLS},SHORT://localhost:{SHORT}
log.dirs={dir}/data
offsets.topic.replication.factor=1
group.initial.rebalance.delay.ms=0
delegation.token.secret.key=${{env:TOKEN_SECRET}}
config.providers=env
config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider
ssl.keystore.type=PEM
ssl.keystore.location={dir}/node.pem
ssl.truststore.type=PEM
ssl.truststore.location={dir}/ca.pem
sasl.enabled.mechanisms={sasl}
sasl.oauthbearer.jwks.endpoint.url=file://{dir}/jwks.json
sasl.oauthbearer.expected.issuer={issuer}
sasl.oauthbearer.expected.audience={audience}
listener.name.logins.plain.sasl.jaas.config={plain} required user_alice="secret";
listener.name.short.plain.sasl.jaas.config={plain} required user_alice="secret";
listener.name.short.connections.max.reauth.ms=2000
listener.name.dev.sasl.enabled.mechanisms=OAUTHBEARER
listener.name.dev.sasl.oauthbearer.jwks.endpoint.url=
listener.name.dev.trimaran.oauthbearer.unsecured.allowed=true
listener.name.tls.ssl.client.auth=required
listener.name.tls.ssl.principal.mapping.rules=RULE:^CN=(.*?),.*$/$1/
"""
STORE_PASSWORD = "of-the-store"
NO_SETTINGS: Mapping[str, str] = {}
LISTENERS = ("CONTROLLER", "INTERNAL", "LOGINS", "DEV", "TLS", "SHORT")


def _pkcs12(key, chain):
    own, *issuers = load_pem_x509_certificates(chain.encode())
    private = serialization.load_pem_private_key(key.encode(), None)
    closed = serialization.BestAvailableEncryption(STORE_PASSWORD.encode())
    return pkcs12.serialize_key_and_certificates(b"client", private, own, issuers or None, closed)


class LoginNode:
    """`ports` by listener; alice's password is always `secret`. `settings` are additional keys of the node."""

    def __init__(self, directory: Path, ports, settings: Mapping[str, str] = NO_SETTINGS) -> None:
        self.dir, self.settings = directory, settings
        self.certificates = certificates = Certificates()
        self.ports = {name: next(ports) for name in LISTENERS}
        for name, text in {
            "node.pem": "".join(certificates.server),
            "ca.pem": certificates.ca,
            "client.key": certificates.client[0],
            "client.crt": certificates.client[1],
            "jwks.json": key_set().decode(),
            "token.jwt": token(exp=2_000_000_000),
        }.items():
            (directory / name).write_text(text)
        (directory / "client.p12").write_bytes(_pkcs12(*certificates.client))
        self.token_id, self.token_hmac = "", ""

    def at(self, listener: str) -> str:
        return f"localhost:{self.ports[listener]}"

    @contextlib.contextmanager
    def running(self):
        file, err = self.dir / "server.properties", self.dir / "node.err"
        names = {"issuer": ISSUER, "audience": AUDIENCE, "plain": PLAIN_MODULE, "sasl": SASL}
        more = "".join(f"{key}={value}\n" for key, value in self.settings.items())
        file.write_text(PROPERTIES.format(**self.ports, **names, dir=self.dir) + more)
        environment = {**os.environ, "TOKEN_SECRET": "of-tokens", "ALICE": "secret"}
        self._format(file, environment)
        command = [sys.executable, "-m", "trimaran", "server", "start", "-c", str(file)]
        with err.open("w") as stderr:
            process = subprocess.Popen(command, cwd=ROOT, env=environment, stderr=stderr)
        try:
            line = "[KafkaServer id=1] started"
            until(lambda: line in err.read_text() or process.poll() is not None, line)
            assert process.poll() is None, err.read_text()
            self._get_token()
            yield self
        finally:
            process.terminate()
            process.wait(STOP_SECONDS_MAX)

    @staticmethod
    def _format(file, environment):
        cluster_id = trimaran("storage", "random-uuid").stdout.strip()
        users = [
            word
            for bits in (256, 512)
            for word in ("--add-scram", f"SCRAM-SHA-{bits}=[name=alice,password=${{env:ALICE}}]")
        ]
        words = ("storage", "format", "-t", cluster_id, "-c", str(file), *users)
        trimaran(*words, environ=environment)

    def _get_token(self):
        sasl = ScramCredentials("SCRAM-SHA-512", "alice", "secret")
        security = ClientSecurity(self.certificates.client_context(), sasl)
        connection = BlockingConnection(("localhost", self.ports["LOGINS"]), security=security)
        request = CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1)
        answer = connection.call(request)
        connection.close()
        self.token_id, self.token_hmac = answer.token_id, base64.b64encode(answer.hmac).decode()

    # The settings of Kafka-style clients, by the way to log in.

    def properties(self, way: str, password: str = "secret") -> dict[str, str]:
        trust = {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": f"{self.dir}/ca.pem",
        }
        if way == "mTLS":
            keys = {
                "ssl.keystore.type": "PKCS12",
                "ssl.keystore.location": f"{self.dir}/client.p12",
                "ssl.keystore.password": STORE_PASSWORD,
                "ssl.key.password": STORE_PASSWORD,
            }
            return {"security.protocol": "SSL", **trust, **keys}
        if way == "unsecured":
            jaas = f'{OAUTHBEARER_MODULE} required unsecuredLoginStringClaim_sub="alice";'
            return {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.jaas.config": jaas,
            }
        sasl = {"security.protocol": "SASL_SSL", **trust, "sasl.mechanism": way}
        if way == "OAUTHBEARER":
            package = "org.apache.kafka.common.security.oauthbearer"
            handler = f"{package}.OAuthBearerLoginCallbackHandler"
            return {
                **sasl,
                "sasl.jaas.config": f"{OAUTHBEARER_MODULE} required;",
                "sasl.login.callback.handler.class": handler,
                "sasl.oauthbearer.token.endpoint.url": f"file://{self.dir}/token.jwt",
            }
        module = PLAIN_MODULE if way == "PLAIN" else SCRAM_MODULE
        options = f'username="alice" password="{password}"'
        if way == "token":
            sasl["sasl.mechanism"] = "SCRAM-SHA-512"
            name = f'username="{self.token_id}" password="{self.token_hmac}"'
            options = f'{name} tokenauth="true"'
        return {**sasl, "sasl.jaas.config": f"{module} required {options};"}

    def bootstrap_of(self, way: str) -> str:
        return self.at({"mTLS": "TLS", "unsecured": "DEV"}.get(way, "LOGINS"))

    def file_of(self, way: str, password: str = "secret", user: str = "alice") -> Path:
        file = self.dir / f"{way}-{user}-{password}.properties"
        settings = self.properties(way, password)
        text = "".join(f"{key}={value}\n" for key, value in settings.items())
        file.write_text(text.replace('username="alice"', f'username="{user}"'))
        return file
