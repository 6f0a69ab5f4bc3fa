"""The sockets that a broker listens on, and the addresses that it tells others (`advertised.listeners`)."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence

from quorum.config.server import ServerConfig
from quorum.metadata.image import Endpoint
from wire.transport.limits import ConnectionLimits
from wire.transport.server import Listener

# A fleet of clients comes back at once after a restart.
BACKLOG_MIN = 1024


def bind_listeners(
    config: ServerConfig, sockets: Mapping[str, socket.socket] | None
) -> list[Listener]:
    """Listens on every broker listener; `sockets` by listener name were bound by somebody else before.

    Raises:
        OSError: an address is taken or not ours.
    """
    given = sockets or {}
    backlog = max(BACKLOG_MIN, config["socket.listen.backlog.size"])
    return [
        Listener(endpoint.name, given[endpoint.name])
        if endpoint.name in given
        else Listener.bind(endpoint.name, endpoint.host, endpoint.port, backlog=backlog)
        for endpoint in config.broker_listeners
    ]


def advertised(config: ServerConfig, listeners: Sequence[Listener]) -> list[Endpoint]:
    """What the broker registers; port 0 becomes the port that was found, no host this machine's name."""
    ports = {listener.name: listener.address[1] for listener in listeners}
    return [
        endpoint._replace(
            host=endpoint.host or socket.getfqdn(), port=endpoint.port or ports[endpoint.name]
        )
        for endpoint in config.advertised_broker_listeners
        if endpoint.name in ports
    ]


def limits_of(config: ServerConfig) -> ConnectionLimits:
    """Kafka's keys about connections."""
    return ConnectionLimits(
        frame_bytes_max=config["socket.request.max.bytes"],
        idle_seconds=config["connections.max.idle.ms"] / 1000,
        connections_max=config["max.connections"],
        connections_per_ip_max=config["max.connections.per.ip"],
    )
