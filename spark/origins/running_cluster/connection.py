"""The connection to a running cluster: Kafka's client properties as options `kafka.…`, and the client created from
them.

Every known property has an effect; all others are refused, since they would be ignored silently. The settings travel to
executors, so files that they name (trust stores) must exist there, too.
"""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from trimaran.node.config.config_def import ConfigError
from trimaran.node.config.security_keys import CLIENT_SECURITY
from trimaran.spark.options import INT_MAX, LONG_MAX, OptionError, OptionReader, between
from trimaran.spark.origins.origin import DataUnreadable
from trimaran.wire.client.backoff import ExponentialBackoff
from trimaran.wire.client.bootstrap import parse_bootstrap
from trimaran.wire.client.errors import (
    AuthenticationRefused,
    ConnectionLost,
    ConnectRefused,
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

log = logging.getLogger(__name__)

PREFIX = "kafka."
BROKERS = "kafka.bootstrap.servers"
CONTROLLERS = "kafka.controller.bootstrap.servers"
API_TIMEOUT, POLL_TIMEOUT = "kafka.default.api.timeout.ms", "kafkaConsumer.pollTimeoutMs"
SECONDS_MIN = 0.001  # a timeout of 0 would make a socket non-blocking
SECURITY_KEYS = tuple(key.name for key in CLIENT_SECURITY)
API_TIMEOUT_MS = 60_000  # the default of Kafka's `default.api.timeout.ms`
POLL_TIMEOUT_MS = 120_000  # the default of Spark's network timeout
# Bytes of a response: enough to make its round trip negligible, small compared with a worker's memory.
FETCH_BYTES = 4 << 20
CLIENT_ID = "spark"


class TimeLimit(NamedTuple):
    """How long a client waits, and the option that sets it."""

    option: str
    seconds: float


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
    call_limit: TimeLimit
    poll_timeout_seconds: float
    fetch_bytes: int

    def __repr__(self) -> str:
        return f"ClusterSettings({self.bootstrap})"

    @contextmanager
    def client(self, *, is_polling: bool = False) -> Iterator[blocking.BlockingClient]:
        """Yields a connected client. A call waits up to `call_limit`; in an executor that polls, it waits up to
        `kafkaConsumer.pollTimeoutMs`.

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
        wait = self.call_limit
        if is_polling:
            wait = TimeLimit(POLL_TIMEOUT, self.poll_timeout_seconds)
        with (
            self.failures_in_words(),
            blocking.BlockingClient(
                addresses,
                client_id=self.client_id,
                of_controllers=self.of_controllers,
                timeout=wait.seconds,
                security=security,
            ) as client,
        ):
            _ensure_let_in(client, addresses, wait)
            yield client

    @contextmanager
    def failures_in_words(self) -> Iterator[None]:
        """Raises DataUnreadable for any failure of the cluster inside the block."""
        try:
            yield
        except AuthenticationRefused as error:
            raise DataUnreadable(
                f"{self.bootstrap} refused access: {error}; see the options kafka.security.protocol, kafka.sasl.… "
                "and kafka.ssl.…"
            ) from None
        except (ConnectionLost, RequestTimedOut) as error:
            raise DataUnreadable(f"{self.bootstrap}: {error}{_hint(error.__cause__)}") from None
        except VersionMismatch as error:
            raise DataUnreadable(f"{self.bootstrap} has an unsupported version: {error}") from None
        except KafkaError as error:
            raise DataUnreadable(f"{self.bootstrap} answered {error}") from None
        except RemoteProtocolError as error:
            raise DataUnreadable(
                f"{self.bootstrap} sent a malformed response: {error}; check that it is a listener of Kafka, and the "
                "option kafka.security.protocol"
            ) from None


def _hint(reason: BaseException | None) -> str:
    """A listener with SASL closes the connection of a client without a login at its first request."""
    if isinstance(reason, ConnectionLost) and not isinstance(reason, ConnectRefused):
        return "; if the nodes are up, check the option kafka.security.protocol"
    return ""


def _ensure_let_in(
    client: blocking.BlockingClient, addresses: Sequence[Address], wait: TimeLimit
) -> None:
    """Waits until a node accepts the connection and login, since a refused one would be retried repeatedly.

    Raises:
        AuthenticationRefused, RemoteProtocolError: waiting cannot help.
        ConnectionLost: no address exists, or none has accepted within this time.
    """
    deadline = time.monotonic() + wait.seconds
    backoff = ExponentialBackoff()
    while True:
        failures: list[Exception] = []
        for address in addresses:
            try:
                left = max(deadline - time.monotonic(), SECONDS_MIN)
                client.connection_to(address, timeout=min(blocking.CONNECT_SECONDS, left))
            except AuthenticationRefused:
                raise
            except (ConnectionLost, RequestTimedOut) as error:
                if isinstance(error.__cause__, RemoteProtocolError):
                    raise error.__cause__ from None
                failures.append(error)
            else:
                return
        told = "; ".join(map(str, failures))
        if all(isinstance(error.__cause__, socket.gaierror) for error in failures):
            raise ConnectionLost(f"{told}; check the names in the option")
        if time.monotonic() >= deadline:
            raise ConnectionLost(
                f"{told}; no connection within {wait.seconds:g} s: check that these are listeners of running nodes, "
                f"and the option kafka.security.protocol; {wait.option} sets the wait"
            )
        if not backoff.failures:
            log.warning("%s; waiting up to %g s (%s)", told, wait.seconds, wait.option)
        time.sleep(min(backoff.failed(), max(deadline - time.monotonic(), 0)))


def cluster_settings(o: OptionReader, option: str = BROKERS) -> ClusterSettings | None:
    """Returns the cluster that the options name; None for directories. Raises OptionError."""
    bootstrap = o.get(option)
    security = tuple(
        (name, value) for name in SECURITY_KEYS if (value := o.get(PREFIX + name)) is not None
    )
    client_id = o.get("kafka.client.id") or CLIENT_ID
    above_zero = f"a number above 0, up to {INT_MAX}"
    api_ms = o.parse(API_TIMEOUT, between(1), API_TIMEOUT_MS, above_zero)
    poll_ms = o.parse(POLL_TIMEOUT, between(1, LONG_MAX), POLL_TIMEOUT_MS, "a number above 0")
    fetch = o.parse("kafka.max.partition.fetch.bytes", between(1), FETCH_BYTES, above_zero)
    if bootstrap is None:
        why = f"nodes are reached with {option} only"
        o.refuse(why, *(PREFIX + name for name in SECURITY_KEYS), "kafka.client.id")
        o.refuse(why, API_TIMEOUT, POLL_TIMEOUT, "kafka.max.partition.fetch.bytes")
        return None
    if o.get("path") or o.get("paths"):
        raise o.wrong(option, "there is a path, too: give one of them")
    try:
        parse_bootstrap(bootstrap)
    except ValueError as error:
        raise o.wrong(option, f"{bootstrap!r} is not HOST:PORT,…: {error}") from None
    return ClusterSettings(
        bootstrap,
        option == CONTROLLERS,
        security,
        client_id,
        TimeLimit(API_TIMEOUT, api_ms / 1000),
        poll_ms / 1000,
        fetch,
    )
