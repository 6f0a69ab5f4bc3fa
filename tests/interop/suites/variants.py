"""Third-party suites with a different cluster, or with other options of the tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

from tests.certificates import Certificates
from tests.interop.secured_controllers import pkcs8
from tests.interop.suites import franz_go, kafka_javascript, librdkafka
from tests.interop.suites.clusters import BROKERS, cluster
from trimaran.node.security.plain import PLAIN_MODULE

USER, PASSWORD = "testuser", "testpass"
SASL_CLIENT = """bootstrap.servers={bootstrap}
security.protocol=sasl_ssl
ssl.ca.location={folder}/ca.pem
sasl.mechanisms=PLAIN
sasl.username={user}
sasl.password={password}
"""
# Half an hour for one test, which runs in librdkafka's own row.
LONG = (librdkafka.HURRIED[:4],)
# Test 0142 waits until connections log in again after this time.
REAUTH_MS = 10_000


@dataclass(frozen=True)
class Variant:
    """A suite under another name, with settings of the cluster, and options of its `run`. With a `protocol` the brokers
    have a listener with it, and `secure(folder)` creates keys in the folder and returns more settings. `title` is its
    name on the page.
    """

    NAME: str
    title: str
    suite: ModuleType
    settings: Mapping[str, object] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    protocol: str = ""
    secure: Callable[[Path], Mapping[str, object]] = lambda _folder: {}
    STARTS_NODES: ClassVar = True

    @property
    def NEEDS(self) -> tuple[str, ...]:  # noqa: N802 - as the suites' own
        needs: tuple[str, ...] = self.suite.NEEDS
        return needs

    @property
    def VERSION(self) -> str:  # noqa: N802
        version: str = self.suite.VERSION
        return version

    @property
    def SOURCES(self) -> str | None:  # noqa: N802
        return getattr(self.suite, "SOURCES", None)

    def run(self, kind: str, work: Path, only: Iterable[str] = ()) -> dict[str, str]:
        nodes = work / "nodes"
        nodes.mkdir()
        settings = {**self.settings, **self.secure(work)}
        with cluster(kind, nodes, settings, self.protocol) as found:
            options = dict(self.options)
            if self.protocol:
                options["security"] = SASL_CLIENT.format(
                    bootstrap=found.client_bootstrap(*BROKERS),
                    folder=work,
                    user=USER,
                    password=PASSWORD,
                )
            states: dict[str, str] = self.suite.run(
                found.bootstrap(*BROKERS), work, only, **options
            )
            return states


def _plain_over_tls(folder: Path) -> dict[str, object]:
    certificates = Certificates()
    key, chain = certificates.server
    (folder / "server.pem").write_text(pkcs8(key) + chain)
    (folder / "ca.pem").write_text(certificates.ca)
    user = f'{PLAIN_MODULE} required user_{USER}="{PASSWORD}";'
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": folder / "server.pem",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": folder / "ca.pem",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.clients.plain.sasl.jaas.config": user,
        "connections.max.reauth.ms": REAUTH_MS,
        # Brokers are anonymous to each other, on the plaintext listener; test 0081 creates the cluster's first ACL,
        # which excludes all other users.
        "super.users": "User:ANONYMOUS",
    }


VARIANTS = (
    Variant(
        "librdkafka-noautocreate",
        "topics are not created by themselves",
        librdkafka,
        settings={"auto.create.topics.enable": "false"},
        options={"scenario": "noautocreate"},
    ),
    Variant(
        "librdkafka-sasl",
        "over TLS with SASL/PLAIN",
        librdkafka,
        options={"without": LONG},
        protocol="SASL_SSL",
        secure=_plain_over_tls,
    ),
    Variant(
        "librdkafka-idempotent",
        "all producers idempotent",
        librdkafka,
        options={"options": ("-P",), "without": LONG},
    ),
    Variant("franz-go-500000", "500,000 records", franz_go, options={"records": 500_000}),
    Variant(
        "kafka-javascript-consumer",
        "groups by KIP-848",
        kafka_javascript,
        # The settings of the cluster in the suite's own scripts.
        settings={
            "group.consumer.min.session.timeout.ms": "6000",
            "group.consumer.session.timeout.ms": "10000",
        },
        options={"protocol": "consumer"},
    ),
)
