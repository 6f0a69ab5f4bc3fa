"""The connection to a running cluster: Kafka's client properties as options `kafka.…`, and the client made of them.

Every known property has an effect; all others are refused, since they would be ignored silently. The settings travel to
executors, so files that they name (trust stores) must exist there, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trimaran.node.config.config_def import ConfigError
from trimaran.node.config.security_keys import CLIENT_SECURITY
from trimaran.spark.options import OptionError, OptionReader, positive
from trimaran.spark.origins.origin import DataUnreadable
from trimaran.wire.client.bootstrap import parse_bootstrap
from trimaran.wire.client.errors import (
    AuthenticationRefused,
    ConnectionLost,
    RequestTimedOut,
    VersionMismatch,
)
from trimaran.wire.errors import KafkaError, RemoteProtocolError
from trimaran.wire.identity import Address
from trimaran.wire.later import imported_later

if TYPE_CHECKING:
    from trimaran.node.security import listener_security
    from trimaran.wire import blocking
else:
    listener_security = imported_later("trimaran.node.security.listener_security")
    blocking = imported_later("trimaran.wire.blocking")

PREFIX = "kafka."
BROKERS = "kafka.bootstrap.servers"
CONTROLLERS = "kafka.controller.bootstrap.servers"
SECURITY_KEYS = tuple(key.name for key in CLIENT_SECURITY)
POLL_TIMEOUT_MS = 120_000  # the default of Spark's network timeout
FETCH_BYTES = (
    4 << 20
)  # bytes of a response: enough to make its round trip negligible, small compared with a worker's memory
CLIENT_ID = "spark"


@dataclass(frozen=True, slots=True)
class Property:
    """A client property given as an option; see `trimaran.node.config.server.Setting`."""

    value: str
    origin: str


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """Picklable; passwords among the properties are not shown."""

    bootstrap: str
    of_controllers: bool
    security: tuple[tuple[str, str], ...]
    client_id: str
    poll_timeout_seconds: float
    fetch_bytes: int

    def __repr__(self) -> str:
        return f"ClusterSettings({self.bootstrap})"

    @contextmanager
    def client(self) -> Iterator[blocking.BlockingClient]:
        """Yields a connected client.

        Raises:
            DataUnreadable: any failure of the cluster inside the block.
            OptionError: a property is wrong, or a file that it names cannot be used here.
        """
        settings = {name: Property(value, PREFIX + name) for name, value in self.security}
        try:
            security = listener_security.client_security(settings)
        except ConfigError as error:
            raise OptionError(str(error)) from None
        addresses = parse_bootstrap(self.bootstrap)
        try:
            with blocking.BlockingClient(
                addresses,
                client_id=self.client_id,
                of_controllers=self.of_controllers,
                timeout=self.poll_timeout_seconds,
                security=security,
            ) as client:
                _ensure_let_in(client, addresses)
                yield client
        except AuthenticationRefused as error:
            raise DataUnreadable(
                f"{self.bootstrap} refused access: {error}; see the options kafka.security.protocol, kafka.sasl.… "
                "and kafka.ssl.…"
            ) from None
        except (ConnectionLost, RequestTimedOut) as error:
            raise DataUnreadable(f"{self.bootstrap}: {error}") from None
        except VersionMismatch as error:
            raise DataUnreadable(f"{self.bootstrap} has an unsupported version: {error}") from None
        except KafkaError as error:
            raise DataUnreadable(f"{self.bootstrap} answered {error}") from None
        except RemoteProtocolError as error:
            raise DataUnreadable(
                f"{self.bootstrap} sent a malformed response: {error}; check that it is a Kafka cluster"
            ) from None


def _ensure_let_in(client: blocking.BlockingClient, addresses: Sequence[Address]) -> None:
    """Checks first that a node accepts the connection and login, since a refused one would be retried repeatedly."""
    for address in addresses:
        try:
            client.connection_to(address)
        except AuthenticationRefused:
            raise
        except (ConnectionLost, RequestTimedOut):
            continue
        return


def cluster_settings(o: OptionReader, option: str = BROKERS) -> ClusterSettings | None:
    """Returns the cluster that the options name; None for directories. Raises OptionError."""
    bootstrap = o.get(option)
    security = tuple(
        (name, value) for name in SECURITY_KEYS if (value := o.get(PREFIX + name)) is not None
    )
    client_id = o.get("kafka.client.id") or CLIENT_ID
    poll_ms = o.parse("kafkaConsumer.pollTimeoutMs", positive, POLL_TIMEOUT_MS, "a number above 0")
    fetch = o.parse("kafka.max.partition.fetch.bytes", positive, FETCH_BYTES, "a number above 0")
    if bootstrap is None:
        why = f"nodes are reached with {option} only"
        o.refuse(why, *(PREFIX + name for name in SECURITY_KEYS), "kafka.client.id")
        o.refuse(why, "kafkaConsumer.pollTimeoutMs", "kafka.max.partition.fetch.bytes")
        return None
    if o.get("path") or o.get("paths"):
        raise o.wrong(option, "there is a path, too: give one of them")
    try:
        parse_bootstrap(bootstrap)
    except ValueError as error:
        raise o.wrong(option, f"{bootstrap!r} is not HOST:PORT,…: {error}") from None
    return ClusterSettings(
        bootstrap, option == CONTROLLERS, security, client_id, poll_ms / 1000, fetch
    )
