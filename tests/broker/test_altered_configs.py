"""Effects of altered configs on a running broker: certificates and users for new connections, and reported reasons for
ignored ones.
"""

from __future__ import annotations

import logging
import ssl
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import trio

from tests.broker.handlers.configs import described, incremental
from tests.broker.tls_broker import open_tls_broker
from tests.certificates import Certificates
from tests.cluster.in_process import cluster, connected_to
from trimaran.broker.background.log_cleaner import CleanerSettings
from trimaran.quorum.metadata.image import MetadataImage
from trimaran.quorum.serving.node_configs import NodeConfigs
from trimaran.wire.client.errors import AuthenticationRefused
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.metadata import MetadataRequest
from trimaran.wire.security.listener import ClientSecurity
from trimaran.wire.security.sasl.plain import PlainCredentials
from trimaran.wire.transport.client.node_connection import open_node_connection

SECONDS = 60.0
BROKER = 4
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="{}";'
KEYSTORE = "listener.name.clients.ssl.keystore.location"
USERS = "listener.name.clients.plain.sasl.jaas.config"


def has(image: MetadataImage, wanted: dict[str, str], node: str) -> bool:
    configs = image.configs.of(BROKER, node)
    return all(configs.get(key) == value for key, value in wanted.items())


class Admin:
    """A connection to one broker; `seen` waits until it has applied what the controller has committed."""

    def __init__(self, running, connection):
        self.running, self.connection = running, connection

    async def call(self, request):
        return await self.connection.call(request, timeout=SECONDS)

    async def seen(self, predicate):
        with trio.fail_after(SECONDS):
            await self.running.parts.metadata.wait_for(predicate)


class Secured(Admin):
    """A broker with a SASL_SSL listener for clients, and a plain text listener for administrators."""

    def __init__(self, running, connection, certificates: Certificates, path: Path):
        super().__init__(running, connection)
        self.certificates = certificates
        self.path = path

    def write(self, name: str, pair: tuple[str, str]) -> str:
        path = self.path / name
        path.write_text("".join(pair))
        return str(path)

    async def alter(self, **configs: str):
        keys = {key.replace("_", "."): value for key, value in configs.items()}
        resource = (BROKER, str(self.running.node_id), keys)
        (result,) = (await self.call(incremental(resource))).responses
        if not result.error_code:
            await self.seen(partial(has, wanted=keys, node=resource[1]))
        return result

    def as_alice(self, password="old"):
        security = ClientSecurity(
            self.certificates.client_context(), PlainCredentials("alice", password)
        )
        return open_node_connection(*self.running.addresses["CLIENTS"], security=security)

    async def certificate(self) -> bytes:
        """Returns the certificate that a new connection receives."""
        host, port = self.running.addresses["CLIENTS"]
        context = ssl.create_default_context(cadata=self.certificates.ca)
        stream = await trio.open_ssl_over_tcp_stream(
            host, port, ssl_context=context, https_compatible=True
        )
        async with stream:
            await stream.do_handshake()
            return stream.getpeercert(binary_form=True)


@asynccontextmanager
async def secured(path: Path):
    users = {"sasl.enabled.mechanisms": "PLAIN", USERS: JAAS.format("old")}
    async with open_tls_broker(path, "SASL_SSL", **users) as (_, broker, connection, certificates):
        yield Secured(broker, connection, certificates, path)


def der(pair: tuple[str, str]) -> bytes:
    first = pair[1].split("-----END CERTIFICATE-----")[0] + "-----END CERTIFICATE-----"
    return ssl.PEM_cert_to_DER_cert(first.strip())


async def check_shows(one, certificate):
    """Waits until new connections receive it: the broker reads the file in a thread, after the response."""
    with trio.fail_after(SECONDS):
        while await one.certificate() != der(certificate):
            await trio.lowlevel.checkpoint()


async def test_altered_certificate_applies_to_new_connections(tmp_path):
    async with secured(tmp_path) as one:
        assert await one.certificate() == der(one.certificates.server)
        async with one.as_alice() as before:
            new = one.certificates.issue("localhost", "127.0.0.1")
            result = await one.alter(**{KEYSTORE: one.write("new.pem", new)})
            assert result.error_code == 0
            await check_shows(one, new)
            await before.call(MetadataRequest(topics=[]), timeout=20)


async def test_same_location_set_again_reloads_the_file(tmp_path):
    async with secured(tmp_path) as one:
        location = one.write("new.pem", one.certificates.issue("localhost", "127.0.0.1"))
        await one.alter(**{KEYSTORE: location})
        newer = one.certificates.issue("localhost", "127.0.0.1")
        one.write("new.pem", newer)
        offset = one.running.parts.metadata.image.provenance.offset
        await one.alter(**{KEYSTORE: location})
        await one.seen(lambda image: image.provenance.offset > offset)
        await check_shows(one, newer)


async def test_altered_users_are_those_of_new_connections(tmp_path):
    async with secured(tmp_path) as one:
        assert (await one.alter(**{USERS: JAAS.format("new")})).error_code == 0
        with trio.fail_after(SECONDS):
            while not await is_let_in(one, "new"):
                await trio.lowlevel.checkpoint()
        assert not await is_let_in(one, "old")


async def is_let_in(one, password):
    try:
        async with one.as_alice(password) as connection:
            await connection.call(MetadataRequest(topics=[]), timeout=20)
    except AuthenticationRefused:
        return False
    return True


async def test_unusable_listener_config_is_refused(tmp_path):
    async with secured(tmp_path) as one:
        for key, value in (
            (KEYSTORE, str(tmp_path / "none.pem")),
            (KEYSTORE, one.write("broken.pem", ("no key", "no certificate"))),
            (USERS, "no login module"),
            (
                USERS,
                'com.sun.security.auth.module.JndiLoginModule required user.provider.url="ldap://x";',
            ),
            (
                USERS,
                'com.sun.security.auth.module.LdapLoginModule required userProvider="ldap://x";',
            ),
            ("listener.name.nobody.ssl.keystore.location", str(tmp_path / "node.pem")),
            ("listener.name.clients.ssl.protocol", "TLSv1.2"),
            ("listener.name.clients.digest-md5.sasl.jaas.config", JAAS.format("x")),
        ):
            result = await one.alter(**{key: value})
            assert result.error_code == ErrorCode.INVALID_REQUEST, key
            assert result.error_message
        assert await one.certificate() == der(one.certificates.server)
        async with one.as_alice() as connection:
            await connection.call(MetadataRequest(topics=[]), timeout=20)


async def test_ineffective_altered_config_is_logged_once(tmp_path, caplog):
    async with cluster(tmp_path) as running:
        (broker,) = running.brokers.values()
        async with connected_to(broker) as connection:
            one = Admin(broker, connection)
            caplog.set_level(logging.WARNING, logger="trimaran.quorum.serving.idle_configs")
            node = str(broker.node_id)
            for number in ("4", "5"):
                altered = {"num.io.threads": number}
                answer = await one.call(incremental((BROKER, node, altered), (BROKER, "", altered)))
                assert [response.error_code for response in answer.responses] == [0, 0]
                await one.seen(partial(has, wanted=altered, node=node))
            threads = (await described(one, BROKER, node, "num.io.threads"))["num.io.threads"]
            assert (threads.value, threads.config_source) == ("5", 2)
    lines = [
        record.message
        for record in caplog.records
        if record.name == "trimaran.quorum.serving.idle_configs"
    ]
    assert len(lines) == 2, "broker and controller"
    assert all("num.io.threads was altered for" in line for line in lines)


async def test_alterable_configs_apply_at_once(tmp_path):
    async with cluster(tmp_path) as running:
        (broker,) = running.brokers.values()
        async with connected_to(broker) as connection:
            one = Admin(broker, connection)
            metadata = broker.parts.metadata
            configs = NodeConfigs(
                broker.contexts.administration.config, lambda: metadata.image.configs
            )
            altered = {
                "producer.id.expiration.ms": "5000",
                "log.cleaner.backoff.ms": "7",
                "log.cleaner.io.max.bytes.per.second": "9",
                "log.cleaner.dedupe.buffer.size": "4096",
                "log.cleaner.io.buffer.load.factor": "0.5",
            }
            answer = await one.call(incremental((BROKER, "", altered)))
            assert [response.error_code for response in answer.responses] == [0]
            await one.seen(lambda image: len(image.configs.of(BROKER, "")) >= len(altered))
            settings = CleanerSettings.of(configs)
            assert (settings.backoff, settings.bytes_per_second_max) == (0.007, 9.0)
            assert settings.limits.map_bytes == 4096
            topic = broker.parts.families.data.partitions.settings_of("t")
            assert topic.log.producer_id_expiration_ms == 5000
