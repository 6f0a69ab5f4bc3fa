"""Connections to the other replicas, and the detection of ended processes.

There are two per peer, because elections must not queue behind a long poll. A connection opens at the first request and
stays open. When it breaks and every address of the node refuses a new one, the process has ended, and `on_peer_down` is
called immediately. A refusal proves that only if there was a connection before and none is left: an address may never
have been reachable from here (NAT). There is no backoff here: the Raft core decides when to send again.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from functools import partial

import trio

from trimaran.quorum import events
from trimaran.quorum.raft import messages as core
from trimaran.quorum.raft.types import Peer
from trimaran.quorum.translate.requests import write_request
from trimaran.wire.client.errors import (
    ConnectionLost,
    ConnectRefused,
    RequestTimedOut,
    VersionMismatch,
)
from trimaran.wire.errors import LocalProtocolError, RemoteProtocolError
from trimaran.wire.identity import Address, NodeId
from trimaran.wire.messages.add_raft_voter import AddRaftVoterRequest
from trimaran.wire.messages.api_versions import ApiVersionsRequest
from trimaran.wire.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from trimaran.wire.messages.end_quorum_epoch import EndQuorumEpochRequest
from trimaran.wire.messages.fetch import FetchRequest
from trimaran.wire.messages.fetch_snapshot import FetchSnapshotRequest
from trimaran.wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from trimaran.wire.messages.update_raft_voter import UpdateRaftVoterRequest
from trimaran.wire.messages.vote import VoteRequest
from trimaran.wire.schema import Message
from trimaran.wire.security.listener import PLAINTEXT, ClientSecurity
from trimaran.wire.transport.client.channel_traffic import ChannelTraffic
from trimaran.wire.transport.client.node_connection import (
    NodeConnection,
    OnResponse,
    connect,
    open_node_connection,
)
from trimaran.wire.transport.metrics.limited_log import LimitedLog
from trimaran.wire.transport.scheduling.events import AutoResetEvent

log = logging.getLogger(__name__)

# A connection that is idle for this time is closed; peers change rarely, so few connections are ever open.
IDLE_SECONDS = 60.0
# The number of remembered addresses that have answered: more than a quorum has voters.
REACHED_MAX = 64

_WIRE: dict[type, type[Message]] = {
    core.AddVoterRequest: AddRaftVoterRequest,
    core.RemoveVoterRequest: RemoveRaftVoterRequest,
    core.UpdateVoterRequest: UpdateRaftVoterRequest,
    core.ApiVersionsRequest: ApiVersionsRequest,
    core.VoteRequest: VoteRequest,
    core.BeginQuorumEpochRequest: BeginQuorumEpochRequest,
    core.EndQuorumEpochRequest: EndQuorumEpochRequest,
    core.FetchRequest: FetchRequest,
    core.FetchSnapshotRequest: FetchSnapshotRequest,
}
CALL_ERRORS = (
    ConnectionLost,
    RequestTimedOut,
    VersionMismatch,
    RemoteProtocolError,
    LocalProtocolError,
)
_PeerKey = tuple[str, int, bool]


class Peers:
    """The connections to all peers; their tasks run in the given nursery."""

    def __init__(
        self,
        nursery: trio.Nursery,
        client_id: str,
        on_peer_down: Callable[[NodeId], object],
        connect_seconds: float,
        security: ClientSecurity = PLAINTEXT,
    ) -> None:
        self._security = security
        self._nursery = nursery
        self._client_id = client_id
        self._on_peer_down = on_peer_down
        self._connect_seconds = connect_seconds
        self._connections: dict[_PeerKey, _PeerConnection] = {}
        self._closed_traffic = ChannelTraffic()
        self._reached: dict[Address, None] = {}
        self._log = LimitedLog(log)

    def traffic(self) -> ChannelTraffic:
        """Returns counts of the traffic of all connections since the node started."""
        total = ChannelTraffic()
        total.add(self._closed_traffic)
        for connection in self._connections.values():
            total.add(connection.traffic())
        return total

    def send(
        self, peer: Peer, request: core.Request, seconds: float, on_response: OnResponse
    ) -> None:
        """Sends a request of the core; waits for a connection at most the given time. The core decides how long it
        waits for the response.

        `on_response` receives the response or one of `CALL_ERRORS`; VersionMismatch also if the peer's version cannot
        express the request.
        """
        is_fetch = isinstance(request, core.FetchRequest | core.FetchSnapshotRequest)
        peer_connection = self._connection_to((peer.host, peer.port, is_fetch), peer)
        connection = peer_connection.open_connection()
        if connection is None:
            self._nursery.start_soon(
                self._send_when_connected, peer_connection, peer, request, seconds, on_response
            )
        else:
            _send(connection, request, on_response)

    async def _send_when_connected(
        self,
        peer_connection: _PeerConnection,
        peer: Peer,
        request: core.Request,
        seconds: float,
        on_response: OnResponse,
    ) -> None:
        try:
            with trio.fail_after(seconds):
                connection = await peer_connection.connection()
        except trio.TooSlowError:
            on_response(
                RequestTimedOut(f"no connection to {Address(peer.host, peer.port)} in {seconds} s")
            )
        except ConnectRefused as error:
            self._refused(peer)
            on_response(error)
        except CALL_ERRORS as error:
            if isinstance(error.__cause__, socket.gaierror):
                address = str(Address(peer.host, peer.port))
                self._log.log(
                    events.QUORUM_PEER_HOST_UNKNOWN,
                    peer=peer.id,
                    address=address,
                    error=error.__cause__.strerror,
                )
            elif isinstance(error, ConnectionLost):
                await self._probe(peer)
            on_response(error)
        else:
            _send(connection, request, on_response)

    def _connection_to(self, key: _PeerKey, peer: Peer) -> _PeerConnection:
        peer_connection = self._connections.get(key)
        if peer_connection is None:
            on_broken = partial(self._nursery.start_soon, self._probe, peer)
            peer_connection = _PeerConnection(
                key,
                self._client_id,
                self._connect_seconds,
                partial(self._connected, peer.host, peer.port),
                on_broken,
                self._security,
            )
            self._connections[key] = peer_connection
            self._nursery.start_soon(self._run_connection, key, peer_connection)
        return peer_connection

    async def _run_connection(self, key: _PeerKey, peer_connection: _PeerConnection) -> None:
        try:
            await peer_connection.run()
        finally:
            del self._connections[key]
            self._closed_traffic.add(peer_connection.traffic())

    def _connected(self, host: str, port: int) -> None:
        """Remembers a reachable address. The number is bounded, because any node that requests to become a voter can
        name an address.
        """
        self._reached.pop(Address(host, port), None)
        self._reached[Address(host, port)] = None
        if len(self._reached) > REACHED_MAX:
            del self._reached[next(iter(self._reached))]

    def _refused(self, peer: Peer) -> None:
        address = (peer.host, peer.port)
        lines = [self._connections.get((*address, is_fetch)) for is_fetch in (True, False)]
        if address in self._reached and not any(line and line.is_open for line in lines):
            self._on_peer_down(peer.id)

    async def _probe(self, peer: Peer) -> None:
        """Checks after a broken connection whether a process still listens."""
        try:
            sock = await connect(peer.host, peer.port, timeout=self._connect_seconds)
        except ConnectRefused:
            self._refused(peer)
        except ConnectionLost:
            pass
        else:
            sock.close()


def _send(connection: NodeConnection, request: core.Request, on_response: OnResponse) -> None:
    try:
        version = connection.negotiated.best(_WIRE[type(request)])
        connection.ask(write_request(request, version), on_response, version=version)
    except LocalProtocolError as error:
        on_response(VersionMismatch(str(error)))
    except (ConnectionLost, VersionMismatch) as error:
        on_response(error)


class _Attempt:
    """One connection from the request for it to its close; `done` once it is open or has failed."""

    __slots__ = ("connection", "done", "error")

    def __init__(self) -> None:
        self.done = trio.Event()
        self.connection: NodeConnection | None = None
        self.error: Exception | None = None

    @property
    def is_over(self) -> bool:
        closed = self.connection is not None and self.connection.closed.is_set()
        return closed or self.error is not None


class _PeerConnection:
    """The connection to one peer, opened again when it is needed and closed."""

    def __init__(
        self,
        key: _PeerKey,
        client_id: str,
        connect_seconds: float,
        on_open: Callable[[], object],
        on_broken: Callable[[], object],
        security: ClientSecurity,
    ) -> None:
        self._security = security
        self._host, self._port, _ = key
        self._client_id = client_id
        self._connect_seconds = connect_seconds
        self._on_open = on_open
        self._on_broken = on_broken
        self._attempt: _Attempt | None = None
        self._wanted = AutoResetEvent()
        self._used_at = 0.0
        self._closed_traffic = ChannelTraffic()

    def traffic(self) -> ChannelTraffic:
        """Returns counts of the traffic of this connection and those before it."""
        total = ChannelTraffic()
        total.add(self._closed_traffic)
        if self._attempt is not None and self._attempt.connection is not None:
            total.add(self._attempt.connection.traffic)
        return total

    @property
    def is_open(self) -> bool:
        attempt = self._attempt
        return attempt is not None and attempt.connection is not None and not attempt.is_over

    def open_connection(self) -> NodeConnection | None:
        """Returns the connection if it is open."""
        self._used_at = trio.current_time()
        attempt = self._attempt
        return None if attempt is None or attempt.is_over else attempt.connection

    async def connection(self) -> NodeConnection:
        """Returns the connection once it is open; raises the reason if there is none."""
        self._used_at = trio.current_time()
        attempt = self._attempt
        if attempt is None or attempt.is_over:
            self._closed_traffic = self.traffic()
            attempt = self._attempt = _Attempt()
            self._wanted.set()
        await attempt.done.wait()
        if attempt.connection is not None:
            return attempt.connection
        assert attempt.error is not None
        raise attempt.error

    async def run(self) -> None:
        """Connects on demand; ends when unused."""
        while True:
            with trio.move_on_after(IDLE_SECONDS) as scope:
                await self._wanted.wait()
            if scope.cancelled_caught:
                if not self._wanted.is_set():
                    return
                await self._wanted.wait()
            assert self._attempt is not None
            await self._hold(self._attempt)

    async def _hold(self, attempt: _Attempt) -> None:
        try:
            async with open_node_connection(
                self._host,
                self._port,
                client_id=self._client_id,
                timeout=self._connect_seconds,
                security=self._security,
            ) as connection:
                attempt.connection = connection
                self._on_open()
                attempt.done.set()
                await self._until_closed_or_idle(connection)
                if connection.closed.is_set():
                    self._on_broken()
        except CALL_ERRORS as error:
            attempt.error = error
            attempt.done.set()

    async def _until_closed_or_idle(self, connection: NodeConnection) -> None:
        while not connection.closed.is_set():
            with trio.move_on_after(IDLE_SECONDS):
                await connection.closed.wait()
            if trio.current_time() - self._used_at > IDLE_SECONDS:
                return
