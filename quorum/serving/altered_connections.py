"""Connection limits that take effect immediately when they are altered (KIP-402, KIP-612).

Source: `SocketServer.reconfigure` and `ListenerConnectionQuota.reconfigure` of Kafka.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from trimaran.node.config.config_def import ConfigError
from trimaran.node.config.server import ServerConfig
from trimaran.node.listening.addresses import AddressBook
from trimaran.node.listening.listeners import addresses_of, bounds_of
from trimaran.quorum import events
from trimaran.quorum.metadata.delta import MetadataDelta
from trimaran.quorum.metadata.image import BROKER_RESOURCE, EMPTY, ConfigsImage, MetadataImage
from trimaran.quorum.metadata.loader import Manifest
from trimaran.quorum.serving.node_configs import NodeConfigs
from trimaran.wire.text.endpoint import Endpoint
from trimaran.wire.transport.metrics.rate import Windows
from trimaran.wire.transport.server.connection_quotas import ConnectionQuotas

log = logging.getLogger(__name__)


def connections_of(
    config: ServerConfig,
    endpoints: Sequence[Endpoint],
    book: AddressBook,
    too_early: Callable[[str], float] | None = None,
) -> AlteredConnections:
    """Returns the limits of a node's listeners, with the values of its file; resolves host names.

    Raises:
        ConfigError: the file has an unknown host.
    """
    names = [endpoint.name for endpoint in endpoints]
    of_file = NodeConfigs(config, lambda: EMPTY.configs)
    windows = Windows(config["quota.window.num"], config["quota.window.size.seconds"])
    quotas = ConnectionQuotas(bounds_of(of_file, names, addresses_of), windows, too_early)
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
            bounds = bounds_of(now, self._names, self.book.addresses)
        except ConfigError as error:  # the value was accepted by a version with other rules
            events.CONNECTIONS_CONFIG_INVALID.log(log, error=error)
            return
        if bounds != self.quotas.bounds:
            self.quotas.change(bounds)
