"""The sockets on which a node listens, with their security settings and connection limits.

Source: Kafka's `SocketServer`, `SocketServerConfigs`.
"""

from __future__ import annotations

import resource
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from trimaran.node.config.server import ServerConfig
from trimaran.node.security.listener_security import listener_security
from trimaran.node.security.logins import Logins
from trimaran.wire.text.endpoint import Endpoint
from trimaran.wire.transport.connection.limits import ConnectionLimits
from trimaran.wire.transport.memory.bounds import REQUEST_BYTES_MAX
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
            _limit_receive_buffer(listener.socket, config["socket.receive.buffer.bytes"])
            listeners.append(listener)
        bound.pop_all()
        return listeners


def _limit_receive_buffer(sock: socket.socket, size: int) -> None:
    """Sets the buffers of accepted sockets, unless `size` is -1.

    The operating system would let a buffer grow to tens of megabytes. A client that logs in again (KIP-368) sends this
    request behind all requests in the buffer, so that the old login could expire before.
    """
    if size >= 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)


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


def descriptors_end(descriptors: int) -> int:
    """Returns the first number of a process's `descriptors` that is reserved from connections."""
    if descriptors == resource.RLIM_INFINITY:
        return 1 << 31
    return descriptors - min(DESCRIPTORS_FOR_FILES, descriptors // 4)
