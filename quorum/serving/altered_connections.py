"""Connection limits that take effect immediately when they are altered (KIP-402, KIP-612).

Source: `SocketServer.reconfigure` and `ListenerConnectionQuota.reconfigure` of Kafka.
"""

from __future__ import annotations

import logging
import math
import socket
from collections.abc import Callable, Iterable, Sequence

from trimaran.node.config.config_def import INT_MAX, ConfigError
from trimaran.node.config.node_keys import override
from trimaran.node.config.server import ServerConfig
from trimaran.node.listening.addresses import AddressBook
from trimaran.quorum import events
from trimaran.quorum.metadata.delta import MetadataDelta
from trimaran.quorum.metadata.image import BROKER_RESOURCE, EMPTY, ConfigsImage, MetadataImage
from trimaran.quorum.metadata.loader import Manifest
from trimaran.quorum.serving.node_configs import NodeConfigs
from trimaran.wire.text.endpoint import Endpoint
from trimaran.wire.transport.metrics.rate import Windows
from trimaran.wire.transport.server.connection_quotas import ConnectionBounds, ConnectionQuotas

log = logging.getLogger(__name__)


def connections_of(
    config: ServerConfig,
    endpoints: Sequence[Endpoint],
    book: AddressBook,
    too_early: Callable[[str], float] | None = None,
) -> AlteredConnections:
    """Returns the connection limits of a node's listeners, at first those of its file; resolves host names.

    Raises:
        ConfigError: the file has an unknown host.
    """
    names = [endpoint.name for endpoint in endpoints]
    of_file = NodeConfigs(config, lambda: EMPTY.configs)
    windows = Windows(config["quota.window.num"], config["quota.window.size.seconds"])
    quotas = ConnectionQuotas(_bounds_of(of_file, names, _addresses_of), windows, too_early)
    return AlteredConnections(config, names, quotas, book)


class AlteredConnections:
    """A `Publisher` that applies altered limits. `quotas` covers the listeners in `names`; `book` must be run."""

    def __init__(
        self,
        config: ServerConfig,
        names: Sequence[str],
        quotas: ConnectionQuotas,
        book: AddressBook,
    ) -> None:
        self._config = config
        self._here = {(BROKER_RESOURCE, str(config.node_id)), (BROKER_RESOURCE, "")}
        self._names = names
        self._configs: ConfigsImage = EMPTY.configs
        self.book = book
        self.quotas = quotas
        book.changed.append(self._apply)

    def publish(self, delta: MetadataDelta, image: MetadataImage, _manifest: Manifest) -> None:
        if not self._here.isdisjoint(delta.configs.changed):
            self._configs = image.configs
            self._apply()

    def _apply(self) -> None:
        now = NodeConfigs(self._config, lambda: self._configs)
        try:
            bounds = _bounds_of(now, self._names, self.book.addresses)
        except ConfigError as error:  # the value was accepted by a version with other rules
            events.CONNECTIONS_CONFIG_INVALID.log(log, error=error)
            return
        if bounds != self.quotas.bounds:
            self.quotas.change(bounds)


def _bounds_of(
    configs: NodeConfigs, listeners: Iterable[str], addresses: Callable[[str], Iterable[str]]
) -> ConnectionBounds:
    """Returns the limits of connections; a listener without its own limit has the node's.

    Raises:
        ConfigError: an override does not have the form HOST:COUNT.
    """
    names = list(listeners)
    return ConnectionBounds(
        connections_max=configs.now("max.connections"),
        of_listeners={name: configs.now_of_listener(name, "max.connections") for name in names},
        per_ip_max=configs.now("max.connections.per.ip"),
        per_ip={
            address: count
            for host, count in map(override, configs.now("max.connections.per.ip.overrides"))
            for address in addresses(host)
        },
        rate=_rate(configs.now("max.connection.creation.rate")),
        rates_of_listeners={
            name: _rate(configs.now_of_listener(name, "max.connection.creation.rate"))
            for name in names
        },
    )


def _rate(value: int) -> float:
    return math.inf if value == INT_MAX else value


def _addresses_of(host: str) -> list[str]:
    """Returns the addresses of a host. Blocks while a name is resolved. Raises ConfigError."""
    try:
        return [str(address[0]) for *_, address in socket.getaddrinfo(host, None)]
    except (OSError, UnicodeError) as error:
        raise ConfigError(
            "max.connections.per.ip.overrides",
            host,
            str(error),
            fix="use an address or a host name that resolves",
        ) from error
