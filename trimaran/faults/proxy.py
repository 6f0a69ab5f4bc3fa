"""A proxy in front of any Kafka, which applies the rules of a `FaultSet` to the requests of its clients.

It listens at one address for bootstrapping, and at a port of its own for each broker that a response names. Bytes pass
in order; only messages that a rule matches or that contain addresses are decoded. TLS may end here on either side, each
with a context.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import trio

from trimaran.faults.connection_faults import ConnectionFaults
from trimaran.faults.fault_set import FaultSet
from trimaran.faults.observations import FaultPeer
from trimaran.faults.proxy_addresses import AddressRewriter
from trimaran.faults.relay import FaultRelay
from trimaran.wire.identity import NO_BROKER, Address, BrokerId
from trimaran.wire.transport.endpoint.endpoint import SocketEndpoint, TlsEndpoint, TransportLayer
from trimaran.wire.transport.server.server import Listener

LISTENER = "PROXY"
ANY_PORT = Address("127.0.0.1", 0)
# The time for connecting to a broker, and for the handshakes of TLS.
CONNECT_SECONDS = 10.0
_ACCEPT_PAUSE_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class ProxySettings:
    """`listen` is the address for bootstrapping, `advertised_host` the one that clients are shown. Brokers get the
    ports after that of `listen` if `has_fixed_ports`, otherwise any.
    """

    upstream: Sequence[Address]
    listen: Address = ANY_PORT
    advertised_host: str = ""
    has_fixed_ports: bool = False
    tls: ssl.SSLContext | None = None
    upstream_tls: ssl.SSLContext | None = None


class ProxyLoop(ValueError):
    """The upstream of a proxy is the proxy itself."""


class FaultProxy:
    """The proxy. `address` is the one for bootstrapping, once `open` has returned."""

    def __init__(self, settings: ProxySettings, faults: FaultSet) -> None:
        self.address = settings.listen
        self._settings = settings
        self._faults = faults
        self._rewriter = AddressRewriter(self._open_port)
        self._listeners: list[Listener] = []
        self._nursery: trio.Nursery | None = None

    def open(self) -> Self:
        """Listens for bootstrapping.

        Raises:
            OSError: the address is in use or not ours. ProxyLoop: the upstream is this address.
        """
        listener = Listener.bind(LISTENER, *self._settings.listen)
        self._listeners.append(listener)
        self.address = self._shown(listener)
        own = {self._settings.listen, self.address, listener.address}
        if own & set(self._settings.upstream):
            self.close()
            raise ProxyLoop(f"the upstream {self.address} is the proxy")
        return self

    def close(self) -> None:
        """Stops listening."""
        for listener in self._listeners:
            listener.socket.close()

    async def run(self) -> None:
        """Serves until it is cancelled."""
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                await self._accept(self._listeners[0], NO_BROKER)
        finally:
            self.close()

    def _shown(self, listener: Listener) -> Address:
        host, port = listener.address
        return Address(self._settings.advertised_host or host, port)

    def _open_port(self, node_id: BrokerId) -> Address:
        """Listens for a broker, and returns the address that clients are shown."""
        assert self._nursery is not None, "responses pass only while the proxy runs"
        host, port = self._listeners[0].address
        wanted = port + len(self._listeners) if self._settings.has_fixed_ports else 0
        listener = Listener.bind(LISTENER, host, wanted)
        self._listeners.append(listener)
        self._nursery.start_soon(self._accept, listener, node_id)
        return self._shown(listener)

    async def _accept(self, listener: Listener, node_id: BrokerId) -> None:
        sock = listener.socket
        sock.setblocking(False)
        assert self._nursery is not None
        while True:
            await trio.lowlevel.wait_readable(sock)
            try:
                accepted, _ = sock.accept()
            except OSError:  # the client has gone, or descriptors are lacking for now
                await trio.sleep(_ACCEPT_PAUSE_SECONDS)
                continue
            self._nursery.start_soon(self._serve, accepted, node_id)

    async def _serve(self, accepted: socket.socket, node_id: BrokerId) -> None:
        client = _endpoint(accepted, self._settings.tls, None)
        try:
            with trio.fail_after(CONNECT_SECONDS):
                principal = await client.handshake()
                broker, upstream = await self._connect(node_id)
        except (OSError, ssl.SSLError, trio.TooSlowError, trio.BrokenResourceError) as error:
            self._faults.note(f"a client was not connected to broker {node_id}: {error!r}")
            await client.aclose()
            return
        facts = FaultPeer(0, LISTENER, node_id, principal=str(principal))
        engine = ConnectionFaults(self._faults, lambda: facts, self._rewriter)

        def end_of_requests() -> None:
            if self._settings.upstream_tls is None:
                upstream.shutdown(socket.SHUT_WR)
            else:  # TLS cannot close one direction only
                relay.stop()

        relay = FaultRelay(client, broker, engine, self._faults, end_of_requests)
        await relay.run()

    async def _connect(self, node_id: BrokerId) -> tuple[TransportLayer, socket.socket]:
        """Returns the connection to a broker, or to the first address for bootstrapping that answers."""
        address = self._rewriter.upstream.get(node_id)
        error: OSError | None = None
        for host, port in [address] if address is not None else self._settings.upstream:
            try:
                stream = await trio.open_tcp_stream(host, port)
            except OSError as failed:
                error = failed
                continue
            sock = socket.socket(fileno=stream.socket.detach())
            endpoint = _endpoint(sock, self._settings.upstream_tls, host)
            await endpoint.handshake()
            return endpoint, sock
        raise error or OSError("no upstream is given")


def _endpoint(
    sock: socket.socket, context: ssl.SSLContext | None, server_name: str | None
) -> TransportLayer:
    if context is None:
        return SocketEndpoint(sock)
    return TlsEndpoint(sock, context, server_name=server_name)
