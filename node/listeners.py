"""The sockets that a node listens on, with what they ask of their peers, and the bounds of connections.

Source: Kafka's `SocketServer`, `SocketServerConfigs`.
"""

from __future__ import annotations

import math
import resource
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from node.config.config_def import INT_MAX, ConfigError
from node.config.security import listener_security
from node.config.server import ServerConfig
from node.logins import Logins
from wire.endpoint import Endpoint
from wire.transport.limits import ConnectionLimits
from wire.transport.memory import REQUEST_BYTES_MAX
from wire.transport.server import Listener

# A fleet of clients comes back at once after a restart.
BACKLOG_MIN = 1024
# No flood of connections keeps us from opening a segment or a checkpoint, which would take the log directory offline.
DESCRIPTORS_FOR_FILES = 256


def bind(
    config: ServerConfig,
    endpoints: Sequence[Endpoint],
    sockets: Mapping[str, socket.socket] | None = None,
    logins: Logins | None = None,
) -> list[Listener]:
    """Listens on every endpoint; `sockets` by listener name were bound by somebody else before.

    Raises:
        ConfigError: TLS or SASL cannot be set up.
        OSError: an address is taken or not ours.
    """
    given = sockets or {}
    protected = _inter_broker_listener(config)
    backlog = max(BACKLOG_MIN, config["socket.listen.backlog.size"])
    logins = logins or Logins()
    secured = [(one, listener_security(config, one.name, logins)) for one in endpoints]
    logins.load_keys()
    with ExitStack() as bound:
        listeners = []
        for one, security in secured:
            listener = (
                Listener(one.name, given[one.name], security, one.name == protected)
                if one.name in given
                else Listener.bind(
                    *(one.name, one.host, one.port),
                    backlog=backlog,
                    security=security,
                    for_nodes=one.name == protected,
                )
            )
            bound.callback(listener.socket.close)
            listeners.append(listener)
        bound.pop_all()
        return listeners


@contextmanager
def closed_on_failure(listeners: Sequence[Listener]) -> Iterator[None]:
    """While the node that they belong to is put together: nobody else closes them then."""
    try:
        yield
    except BaseException:
        close_all(listeners)
        raise


def close_all(listeners: Sequence[Listener]) -> None:
    """Nobody connects any more; harmless where they are closed already."""
    for listener in listeners:
        listener.socket.close()


def _inter_broker_listener(config: ServerConfig) -> str | None:
    """The listener that has bounds of its own: as in Kafka that of the brokers, where clients have another."""
    return config.inter_broker_listener_name if len(config.broker_listeners) > 1 else None


def limits_of(config: ServerConfig) -> ConnectionLimits:
    """Kafka's keys about connections. Looks names of `max.connections.per.ip.overrides` up."""
    request_bytes = config["queued.max.request.bytes"]
    rate = config["max.connection.creation.rate"]
    return ConnectionLimits(
        frame_bytes_max=config["socket.request.max.bytes"],
        idle_seconds=config["connections.max.idle.ms"] / 1000,
        connections_max=config["max.connections"],
        connections_max_of_listeners={
            one.name: config.of_listener(one.name, "max.connections")
            for one in (*config.broker_listeners, *config.controller_listeners)
            if config.is_set_for_listener(one.name, "max.connections")
        },
        connections_per_ip_max=config["max.connections.per.ip"],
        connections_per_ip=_per_ip(config),
        descriptors_end=descriptors_end(resource.getrlimit(resource.RLIMIT_NOFILE)[0]),
        accepts_per_second=math.inf if rate == INT_MAX else rate,
        request_bytes_max=REQUEST_BYTES_MAX if request_bytes < 0 else request_bytes,
    )


def descriptors_end(descriptors: int) -> int:
    """Of a process's `descriptors` the number of the first that no connection gets."""
    if descriptors == resource.RLIM_INFINITY:
        return 1 << 31
    return descriptors - min(DESCRIPTORS_FOR_FILES, descriptors // 4)


def _per_ip(config: ServerConfig) -> dict[str, int]:
    key = "max.connections.per.ip.overrides"
    found = {}
    for text in config[key]:
        host, colon, count = text.rpartition(":")
        try:
            if not colon or not count.isdigit():
                raise ValueError("an override is written HOST:COUNT")
            for *_, address in socket.getaddrinfo(host.strip("[]"), None):
                found[str(address[0])] = int(count)
        except (ValueError, OSError) as error:
            raise ConfigError(
                key,
                text,
                str(error),
                origin=config.origins.get(key, ""),
                fix="use an address or a host name that resolves, and a port number",
            ) from error
    return found
