"""The sockets on which a node listens, with their security settings and connection limits.

Source: Kafka's `SocketServer`, `SocketServerConfigs`.
"""

from __future__ import annotations

import math
import resource
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol

from trimaran.node.config.config_def import INT_MAX, ConfigError
from trimaran.node.config.node_keys import override
from trimaran.node.config.server import ServerConfig
from trimaran.node.security.listener_security import listener_security
from trimaran.node.security.logins import Logins
from trimaran.wire.text.endpoint import Endpoint
from trimaran.wire.transport.connection.limits import ConnectionLimits
from trimaran.wire.transport.memory.bounds import REQUEST_BYTES_MAX
from trimaran.wire.transport.server.connection_quotas import ConnectionBounds
from trimaran.wire.transport.server.server import Listener

# Many clients reconnect at the same time after a restart.
BACKLOG_MIN = 1024
# A flood of connections must not prevent us from opening a segment or a checkpoint, because that would take the log
# directory offline.
DESCRIPTORS_FOR_FILES = 256


def bind(
    config: ServerConfig,
    endpoints: Sequence[Endpoint],
    sockets: Mapping[str, socket.socket] | None = None,
    logins: Logins | None = None,
) -> list[Listener]:
    """Listens on every endpoint; the caller has already bound the `sockets`, by listener name.

    Raises:
        ConfigError: TLS or SASL cannot be set up.
        OSError: an address is in use or not local.
    """
    given = sockets or {}
    protected = _inter_broker_listener(config)
    backlog = max(BACKLOG_MIN, config["socket.listen.backlog.size"])
    logins = logins or Logins()
    secured = [
        (endpoint, listener_security(config, endpoint.name, logins)) for endpoint in endpoints
    ]
    logins.load_keys()
    with ExitStack() as bound:
        listeners = []
        for each_listener, security in secured:
            listener = (
                Listener(
                    each_listener.name,
                    given[each_listener.name],
                    security,
                    each_listener.name == protected,
                )
                if each_listener.name in given
                else Listener.bind(
                    *(each_listener.name, each_listener.host, each_listener.port),
                    backlog=backlog,
                    security=security,
                    for_nodes=each_listener.name == protected,
                )
            )
            bound.callback(listener.socket.close)
            listeners.append(listener)
        bound.pop_all()
        return listeners


@contextmanager
def closed_on_failure(listeners: Sequence[Listener]) -> Iterator[None]:
    """Closes the listeners if the block fails: while a node is being composed, no other code closes them."""
    try:
        yield
    except BaseException:
        close_all(listeners)
        raise


def close_all(listeners: Sequence[Listener]) -> None:
    """Stops accepting connections; harmless if the listeners are closed already."""
    for listener in listeners:
        listener.socket.close()


def _inter_broker_listener(config: ServerConfig) -> str | None:
    """Returns the listener with limits of its own: as in Kafka, this is the listener of brokers, if clients have
    another one.
    """
    return config.inter_broker_listener_name if len(config.broker_listeners) > 1 else None


def limits_of(config: ServerConfig) -> ConnectionLimits:
    """Returns the limits of Kafka's keys for connections."""
    request_bytes = config["queued.max.request.bytes"]
    return ConnectionLimits(
        frame_bytes_max=config["socket.request.max.bytes"],
        idle_seconds=config["connections.max.idle.ms"] / 1000,
        descriptors_end=descriptors_end(resource.getrlimit(resource.RLIMIT_NOFILE)[0]),
        request_bytes_max=REQUEST_BYTES_MAX if request_bytes < 0 else request_bytes,
    )


class Values(Protocol):
    """The values of a node's configs: from its file, or as altered since. The one implementation is
    `trimaran.quorum.serving.node_configs.NodeConfigs`, which is in a higher layer.
    """

    def now(self, key: str) -> Any: ...

    def now_of_listener(self, listener: str, key: str) -> Any: ...


def bounds_of(
    configs: Values, listeners: Iterable[str], addresses: Callable[[str], Iterable[str]]
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


def addresses_of(host: str) -> list[str]:
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


def descriptors_end(descriptors: int) -> int:
    """Returns the first number of a process's `descriptors` that is reserved from connections."""
    if descriptors == resource.RLIM_INFINITY:
        return 1 << 31
    return descriptors - min(DESCRIPTORS_FOR_FILES, descriptors // 4)
