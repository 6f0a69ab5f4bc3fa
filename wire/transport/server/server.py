"""Listeners: accept and serve connections, close idle ones, shut down in order.

Source: `SocketServer` and the idle expiry of `Selector` of Kafka.
"""

from __future__ import annotations

import errno
import itertools
import logging
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import trio

from trimaran.wire.identity import Address
from trimaran.wire.security.listener import PLAINTEXT_LISTENER, ListenerSecurity
from trimaran.wire.text import events
from trimaran.wire.text.hosts import java_text
from trimaran.wire.transport.connection.connection import Connection
from trimaran.wire.transport.connection.core import Service
from trimaran.wire.transport.connection.limits import ConnectionLimits, Counters
from trimaran.wire.transport.dispatch.registry import Registry
from trimaran.wire.transport.endpoint.endpoint import SocketEndpoint, TlsEndpoint, TransportLayer
from trimaran.wire.transport.memory.bounds import SMALL_BYTES
from trimaran.wire.transport.memory.pools import Memory, MemoryPool
from trimaran.wire.transport.metrics.limited_log import LimitedLog
from trimaran.wire.transport.requests.calls import ConnectionInfo
from trimaran.wire.transport.scheduling.loop_turns import loop_turns
from trimaran.wire.transport.scheduling.turn import TurnQueue
from trimaran.wire.transport.server.connection_quotas import ConnectionQuotas
from trimaran.wire.transport.server.interception import INTERCEPT

log = logging.getLogger(__name__)

C = TypeVar("C")

# The backlog. After a restart many clients reconnect at the same time; with Kafka's 50, a thousand of them wait for 17
# s.
BACKLOG = 4096
# The maximum number of connections accepted before other tasks run.
_ACCEPTS_PER_TURN = 64
# There are no descriptors or memory left: the server retries after a while, because no event reports that some are free
# again.
_ACCEPT_PAUSE_SECONDS = 0.1
_ACCEPT_PAUSE_ERRORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_LAST_DESCRIPTORS = OSError(errno.EMFILE, "the last descriptors of this process are for files")
# The number of sweeps per idle time: an idle connection is closed late by at most an eighth of that time.
_SWEEPS_PER_IDLE_TIME = 8
# While connections wait for memory, memory is reclaimed from quiet ones at this interval: a millisecond of work for a
# thousand.
_RELIEF_SECONDS = 0.1


@dataclass(slots=True, eq=False)
class Listener:
    """A listening socket with its name in Kafka's `listeners`. `security` applies to connections that are accepted from
    now on.
    """

    name: str
    socket: socket.socket
    security: ListenerSecurity = PLAINTEXT_LISTENER
    # True for the listener of other nodes: clients cannot use up its memory or its share of connections.
    for_nodes: bool = False

    @classmethod
    def bind(
        cls,
        name: str,
        host: str,
        port: int,
        *,
        backlog: int = BACKLOG,
        security: ListenerSecurity = PLAINTEXT_LISTENER,
        for_nodes: bool = False,
    ) -> Self:
        """Listens on `host` (empty: all interfaces) and `port` (0: any free port).

        Raises:
            OSError: the address (`filename`) is in use or not local.
        """
        try:
            sock = _listening_socket(host, port, backlog)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(Address(host, port))) from error
        return cls(name, sock, security, for_nodes)

    @property
    def address(self) -> Address:
        host, port = self.socket.getsockname()[:2]
        return Address(host, port)


def _listening_socket(host: str, port: int, backlog: int) -> socket.socket:
    if not host and socket.has_dualstack_ipv6():
        host = "::"
    family, *_, address = socket.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:  # also accepts IPv4, as Java's sockets do
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        sock.bind(address)
        sock.listen(backlog)
    except BaseException:
        sock.close()
        raise
    return sock


def _endpoint(sock: socket.socket, security: ListenerSecurity) -> TransportLayer:
    if security.tls is None:
        return SocketEndpoint(sock)
    return TlsEndpoint(sock, security.tls, names=security.names)


def _ip(address: Any) -> str:
    """Returns the address in IPv4 form: a dual-stack socket reports IPv4 addresses as mapped IPv6 ones."""
    return str(address[0]).removeprefix("::ffff:")


async def _close_later(sock: socket.socket, seconds: float) -> None:
    """Closes a socket after a delay, without reading or sending; the number of such sockets is bounded by
    `descriptors_end`.
    """
    with sock:
        await trio.sleep(seconds)


# The value of `Connection.progress`, and the time of its last change.
_Seen = tuple[tuple[int, int, int] | None, float]


class Server:
    """The handle that `serve_listener` reports when it has started."""

    def __init__(
        self, listeners: Sequence[Listener], registry: Registry[Any], limits: ConnectionLimits
    ) -> None:
        self.registry = registry
        self.addresses: dict[str, Address] = {
            listener.name: listener.address for listener in listeners
        }
        self.counters = Counters()
        self.connections: dict[int, Connection] = {}
        self._drain = trio.Event()
        self._drained = trio.Event()
        self._drain_seconds = 0.0
        # Clients and nodes have separate queues: neither waits for the other.
        turns = loop_turns()
        self._turns = {for_nodes: TurnQueue(turns) for for_nodes in (False, True)}
        self._memory = {
            for_nodes: Memory(limits.request_bytes_max, limits.responses_bytes_max)
            for for_nodes in (False, True)
        }

    def pools(self) -> list[MemoryPool]:
        """Returns all memory pools for which connections may wait."""
        return [pool for memory in self._memory.values() for pool in memory.pools()]

    async def drain(self, seconds: float) -> None:
        """Stops accepting and reading, lets running requests be answered for at most `seconds`, then closes all
        connections.
        """
        self._drain_seconds = seconds
        self._drain.set()
        await self._drained.wait()


class _Acceptor(Server):
    """The server with the state that only its own tasks use."""

    def __init__(
        self,
        listeners: Sequence[Listener],
        registry: Registry[Any],
        context: Any,
        limits: ConnectionLimits,
        quotas: ConnectionQuotas,
    ) -> None:
        super().__init__(listeners, registry, limits)
        self._limits = limits
        self._quotas = quotas
        self._protected = frozenset(listener.name for listener in listeners if listener.for_nodes)
        self._log = LimitedLog(log)
        self._service = Service(
            registry, context, limits, trio.current_time, self._log, self.counters
        )
        self._intercept = INTERCEPT.get()
        self._ids = itertools.count(1)
        self._accepting = trio.CancelScope()

    async def accept_all(self, listeners: Sequence[Listener], serving: trio.Nursery) -> None:
        """Accepts connections until the server is drained; then closes the listeners."""
        try:
            with self._accepting:
                async with trio.open_nursery() as nursery:
                    for listener in listeners:
                        nursery.start_soon(self._accept, listener, serving)
        finally:
            for listener in listeners:
                listener.socket.close()

    async def _accept(self, listener: Listener, nursery: trio.Nursery) -> None:
        sock = listener.socket
        sock.setblocking(False)
        while True:
            await trio.lowlevel.wait_readable(sock)
            for _ in range(_ACCEPTS_PER_TURN):
                await self._wait_for_slot(listener)
                try:
                    accepted, peer = sock.accept()
                except BlockingIOError:
                    break
                except OSError as error:
                    await self._accept_failed(error)
                    break
                if accepted.fileno() >= self._limits.descriptors_end:
                    accepted.close()
                    self.counters.refused += 1
                    await self._accept_failed(_LAST_DESCRIPTORS)
                    break
                try:
                    await self._pace(listener)
                except BaseException:
                    accepted.close()
                    raise
                self._admit(listener, accepted, peer, nursery)

    async def _wait_for_slot(self, listener: Listener) -> None:
        name, quotas = listener.name, self._quotas
        while quotas.is_full(name, protected=listener.for_nodes):
            count = quotas.of_listener(name)
            self._log.log(events.LISTENER_FULL, listener=name, connections=count)
            await quotas.freed.wait()

    async def _pace(self, listener: Listener) -> None:
        """Waits if connections arrive faster than permitted; connections queued in the kernel wait with this one."""
        now = trio.current_time()
        delay = self._quotas.came(listener.name, now, protected=listener.for_nodes)
        if delay > 0:
            self.counters.delayed += 1
            await trio.sleep(delay)
            await self._wait_for_slot(listener)

    async def _accept_failed(self, error: OSError) -> None:
        if error.errno in _ACCEPT_PAUSE_ERRORS:
            self._log.log(events.LISTENER_CANNOT_ACCEPT, error=error)
            await trio.sleep(_ACCEPT_PAUSE_SECONDS)
        # All other errors concern a connection that ended before it was accepted (see accept(2)).

    def _admit(
        self, listener: Listener, accepted: socket.socket, peer: Any, nursery: trio.Nursery
    ) -> None:
        ip = _ip(peer)
        early = self._quotas.too_early(
            listener.name, ip, trio.current_time(), protected=listener.for_nodes
        )
        if early > 0:
            self.counters.refused += 1
            self._log.log(events.ADDRESS_TOO_FAST, address=java_text(ip))
            nursery.start_soon(_close_later, accepted, early)
            return
        if self._quotas.is_too_many_of(ip):
            self.counters.refused += 1
            count = self._quotas.of_address(ip)
            self._log.log(events.ADDRESS_FULL, address=java_text(ip), connections=count)
            accepted.close()
            return
        try:
            local = accepted.getsockname()
            endpoint = _endpoint(accepted, listener.security)
        except OSError:  # the connection was already reset
            accepted.close()
            return
        memory = self._memory[listener.for_nodes]
        info = ConnectionInfo(
            next(self._ids),
            listener.name,
            Address(ip, peer[1]),
            Address(_ip(local), local[1]),
            memory=memory,
        )
        if self._intercept is not None:
            endpoint = self._intercept(
                endpoint, info, lambda: bool(self.connections[info.id].core.owed), nursery
            )
        turns = self._turns[listener.for_nodes]
        connection = Connection(endpoint, info, self._service, listener.security, turns)
        self.connections[info.id] = connection
        self._quotas.opened(listener.name, ip)
        self.counters.accepted += 1
        nursery.start_soon(self._serve, connection, listener, ip)
        if self._quotas.excess:
            self._close_excess()

    async def _serve(self, connection: Connection, listener: Listener, ip: str) -> None:
        try:
            await connection.serve()
        finally:
            del self.connections[connection.info.id]
            self.counters.closed += 1
            self._quotas.closed(listener.name, ip)

    async def close_excess(self) -> None:
        """Loops until cancelled: when the bounds are lowered, closes client connections in excess of them."""
        while True:
            await self._quotas.freed.wait()
            if self._quotas.excess:
                self._close_excess()

    def _close_excess(self) -> None:
        """Closes the clients that have been silent the longest; connections of other nodes stay open."""
        closing = [connection for connection in self.connections.values() if connection.is_closing]
        excess = self._quotas.excess - len(closing)
        of_clients = [
            connection
            for connection in self.connections.values()
            if connection.info.listener not in self._protected and not connection.is_closing
        ]
        for client in sorted(of_clients, key=lambda one: one.received_at)[: max(0, excess)]:
            self.counters.excess_closed += 1
            self._log.log(events.CONNECTION_EXCESS, connection=client.info)
            client.abort()

    async def close_idle(self) -> None:
        """Sweeps until cancelled. It enforces the idle time at the cost of one check per connection."""
        seen: dict[int, _Seen] = {}
        while True:
            await trio.sleep(self._limits.idle_seconds / _SWEEPS_PER_IDLE_TIME)
            now = trio.current_time()
            seen = {
                connection.info.id: self._check_progress(connection, seen, now)
                for connection in self.connections.values()
            }

    def _check_progress(self, connection: Connection, seen: dict[int, _Seen], now: float) -> _Seen:
        """Records the progress of the connection since the last sweep, and closes it if there was no progress for too
        long.
        """
        if connection.is_abandoned():
            connection.abort()
        progress = connection.core.progress()
        before, since = seen.get(connection.info.id, (None, now))
        if progress is None or progress != before:
            return progress, now
        connection.core.shrink()
        if now - since >= self._limits.idle_seconds:
            self.counters.idle_closed += 1
            connection.abort()
        return progress, since

    async def relieve(self, pool: MemoryPool) -> None:
        """Loops until cancelled: when connections wait for memory, reclaims it from quiet connections, then closes
        connections that hold memory.
        """
        while True:
            await pool.wait_pressed()
            before = {holder.info.id: holder.core.activity() for holder in self._holders(pool)}
            deadline = trio.current_time() + self._limits.stalled_seconds
            while pool.waiting and trio.current_time() < deadline:
                for connection in self.connections.values():
                    connection.core.shrink()
                await trio.sleep(_RELIEF_SECONDS)
            if pool.waiting:
                self._close_stalled(pool, before)

    def _holders(self, pool: MemoryPool) -> list[Connection]:
        return [
            connection
            for connection in self.connections.values()
            if connection.core.share.of(pool) > SMALL_BYTES
        ]

    def _close_stalled(self, pool: MemoryPool, before: Mapping[int, object]) -> None:
        """Closes stalled connections, the largest first, until a quarter of the pool is free."""
        excess = pool.used - pool.bytes_max * 3 // 4
        for holder in sorted(
            self._holders(pool), key=lambda one: one.core.share.of(pool), reverse=True
        ):
            if excess <= 0:
                return
            if before.get(holder.info.id) == holder.core.activity():
                excess -= holder.core.share.of(pool)
                self.counters.stalled_closed += 1
                self._log.log(events.CONNECTION_STALLED, connection=holder.info)
                holder.abort()

    async def wait_drained(self) -> None:
        """Waits for a call of `drain`, then drains the server."""
        await self._drain.wait()
        self._accepting.cancel()
        for connection in list(self.connections.values()):
            connection.stop_reading()
        with trio.move_on_after(self._drain_seconds):
            while self.connections:
                await self._quotas.freed.wait()


async def serve_listener(
    listeners: Sequence[Listener],
    registry: Registry[C],
    context: C,
    *,
    limits: ConnectionLimits | None = None,
    quotas: ConnectionQuotas | None = None,
    task_status: trio.TaskStatus[Server] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serves until it is cancelled, or drained through the `Server` that it reports as started.

    The listening sockets are closed on return. Cancellation closes every connection immediately.
    """
    acceptor = _Acceptor(
        listeners, registry, context, limits or ConnectionLimits(), quotas or ConnectionQuotas()
    )
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(acceptor.accept_all, listeners, nursery)
            nursery.start_soon(acceptor.close_idle)
            nursery.start_soon(acceptor.close_excess)
            for pool in acceptor.pools():
                nursery.start_soon(acceptor.relieve, pool)
            task_status.started(acceptor)
            await acceptor.wait_drained()
            nursery.cancel_scope.cancel()
    finally:
        acceptor._drained.set()  # noqa: SLF001 - same module
