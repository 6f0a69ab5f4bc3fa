"""The addresses that a broker tells others (`advertised.listeners`)."""

from __future__ import annotations

import socket
from collections.abc import Sequence

from trimaran.node.config.server import ServerConfig
from trimaran.wire.text.endpoint import Endpoint
from trimaran.wire.transport.server.server import Listener


def advertised(config: ServerConfig, listeners: Sequence[Listener]) -> list[Endpoint]:
    """Returns the listeners to register; port 0 becomes the bound port, and a missing host this machine's name."""
    ports = {listener.name: listener.address[1] for listener in listeners}
    return [
        endpoint._replace(
            host=endpoint.host or socket.getfqdn(), port=endpoint.port or ports[endpoint.name]
        )
        for endpoint in config.advertised_broker_listeners
        if endpoint.name in ports
    ]
