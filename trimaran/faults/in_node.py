"""Faults within a node: between the sockets that it accepted and their connections.

While there are no rules, bytes pass as without faults; each read and write only checks a flag. When there is one, the
connection is given one end of a pair of sockets, and a relay works between its other end and the client. The change
happens between two requests, so responses to earlier requests pass before those that the relay knows.
"""

from __future__ import annotations

import socket
from collections.abc import Callable

import trio

from trimaran.faults.connection_faults import ConnectionFaults
from trimaran.faults.fault_set import FaultSet
from trimaran.faults.observations import FaultPeer
from trimaran.faults.relay import FaultRelay
from trimaran.wire.buffers.framing import FrameBuffer
from trimaran.wire.security.principal import Principal
from trimaran.wire.transport.endpoint.endpoint import SocketEndpoint, TransportLayer
from trimaran.wire.transport.endpoint.send_queue import SendQueue
from trimaran.wire.transport.requests.calls import ConnectionInfo

# The interval at which a connection checks for outstanding responses before a relay takes it over.
_POLL_SECONDS = 0.005


class NodeFaults:
    """The interceptor of a node (`trimaran.wire.transport.server.interception`)."""

    def __init__(self, faults: FaultSet, broker: int, listeners: frozenset[str]) -> None:
        """Connections of other `listeners`, such as those of controllers, have no faults."""
        self._faults = faults
        self._broker = broker
        self._listeners = listeners

    def intercept(
        self,
        endpoint: TransportLayer,
        info: ConnectionInfo,
        owes: Callable[[], bool],
        nursery: trio.Nursery,
    ) -> TransportLayer:
        """Returns an endpoint that a rule can take over; see `Intercept`."""
        if info.listener not in self._listeners:
            return endpoint

        def facts() -> FaultPeer:
            return FaultPeer(
                0,
                info.listener,
                self._broker,
                software=" ".join(info.client_software or ()),
                principal=str(info.principal),
            )

        return FaultyEndpoint(endpoint, self._faults, facts, owes, nursery)


class FaultyEndpoint:
    """The endpoint of a connection, which passes bytes until there are rules; from then on a relay works between the
    client and this connection.
    """

    def __init__(
        self,
        endpoint: TransportLayer,
        faults: FaultSet,
        facts: Callable[[], FaultPeer],
        owes: Callable[[], bool],
        nursery: trio.Nursery,
    ) -> None:
        self._client = endpoint
        self._current = endpoint
        self._faults = faults
        self._facts = facts
        self._owes = owes
        self._nursery = nursery
        self._unsent: SendQueue | None = None

    @property
    def received_at(self) -> float:
        """Returns the time of `TransportLayer.received_at`."""
        return self._current.received_at

    @received_at.setter
    def received_at(self, value: float) -> None:
        self._current.received_at = value

    @property
    def seconds(self) -> float:
        """Returns the seconds of `TransportLayer.seconds`."""
        return self._current.seconds

    @seconds.setter
    def seconds(self, value: float) -> None:
        self._current.seconds = value

    async def handshake(self) -> Principal:
        return await self._client.handshake()

    async def receive(self, frames: FrameBuffer) -> int:
        current = self._current
        count = await current.receive(frames)
        if count and self._faults.is_active and current is self._client:
            await self._take_over(frames.take())
            return await self._current.receive(frames)
        return count

    def receive_nowait(self, frames: FrameBuffer) -> int:
        if self._faults.is_active and self._current is self._client:
            return 0
        return self._current.receive_nowait(frames)

    async def _take_over(self, received: bytes) -> None:
        """Starts the relay, once the responses to earlier requests were sent."""
        while self._owes() or self._unsent:  # noqa: ASYNC110 - once for each connection
            await trio.sleep(_POLL_SECONDS)
        ours, relayed = socket.socketpair()
        self._current = SocketEndpoint(ours)
        engine = ConnectionFaults(self._faults, self._facts)
        relay = FaultRelay(
            self._client,
            SocketEndpoint(relayed),
            engine,
            self._faults,
            lambda: relayed.shutdown(socket.SHUT_WR),
        )
        self._nursery.start_soon(relay.run, received)

    def send_nowait(self, queue: SendQueue) -> None:
        self._unsent = queue
        self._current.send_nowait(queue)

    async def send(self, queue: SendQueue) -> None:
        self._unsent = queue
        await self._current.send(queue)

    def peer_is_gone(self) -> bool:
        return self._client.peer_is_gone()

    def give_up(self) -> None:
        self._current.give_up()
        self._client.give_up()

    async def aclose(self) -> None:
        """Closes the connection's end; the relay, if there is one, closes the client's."""
        await self._current.aclose()
