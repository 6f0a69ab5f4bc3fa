"""One connection to one node: with many requests in flight and answers in order.

The trio shell of `trimaran.wire.client.conversation`. The reader always waits for the socket, so the death of the node
is noticed when its socket closes, not at the next request. Choosing a node and retrying are done by
`trimaran.wire.client.calls`.
"""

from __future__ import annotations

import errno
import logging
import socket
import ssl
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import trio

from trimaran.wire.buffers.framing import FrameBuffer
from trimaran.wire.buffers.outgoing import Outgoing
from trimaran.wire.client.conversation import RESPONSE_BYTES_MAX, Conversation
from trimaran.wire.client.errors import (
    AuthenticationRefused,
    ConnectionLost,
    ConnectRefused,
    RequestTimedOut,
)
from trimaran.wire.client.versions import Negotiated
from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.identity import Address
from trimaran.wire.schema import Message
from trimaran.wire.security.listener import PLAINTEXT, ClientSecurity, login
from trimaran.wire.security.sasl.exchange import ClientMechanism
from trimaran.wire.text import events
from trimaran.wire.transport.client.channel_traffic import ChannelTraffic
from trimaran.wire.transport.endpoint import links
from trimaran.wire.transport.endpoint.endpoint import SocketEndpoint, TlsEndpoint, TransportLayer
from trimaran.wire.transport.endpoint.send_queue import SendQueue
from trimaran.wire.transport.scheduling.events import AutoResetEvent, yield_to_loop

log = logging.getLogger(__name__)

CONNECT_SECONDS = 5.0
# The maximum number of unanswered requests on one connection; further callers wait. Servers do not read more than this
# either.
IN_FLIGHT_MAX = 64
# The connection closes after this many requests have timed out: the node is stuck.
_UNANSWERED_MAX = 256
# The maximum number of answers processed between two checkpoints.
_RESPONSES_PER_TURN = 32


# The fraction of a login's lifetime after which we log in again; Kafka's clients use 85 to 95 %.
_RENEWED_AFTER = 0.85
# The maximum number of threads that get credentials: each may wait longer for another server than its connection does.
_LOGIN_THREADS = trio.CapacityLimiter(8)

OnResponse = Callable[[Any], object]
"""A function that receives the response, or ConnectionLost. Called by the connection's reader: it must not raise."""


_Held = tuple[Message, int, OnResponse | None]


class _PendingCall:
    """A call that waits: `take` is its `OnResponse`."""

    __slots__ = ("_response", "done")

    def __init__(self) -> None:
        self.done = AutoResetEvent()
        self._response: Any = None

    def take(self, response: Any) -> None:
        self._response = response
        self.done.set()

    def result(self) -> Any:
        """Returns the response; call it once. Raises ConnectionLost if the connection broke before the response
        arrived.
        """
        response, self._response = self._response, None
        if not isinstance(response, Exception):
            return response
        try:
            raise response
        finally:
            del response  # the frames of the traceback refer to the error: a cycle


class NodeConnection:
    """A connection that any number of tasks may use. Create it with `open_node_connection`."""

    def __init__(
        self,
        endpoint: TransportLayer,
        address: Address,
        client_id: str | None,
        *,
        copy_records: bool = True,
        response_bytes_max: int = RESPONSE_BYTES_MAX,
    ) -> None:
        self.address = address
        # Set when calls can no longer succeed; pending calls then fail.
        self.closed = trio.Event()
        self.traffic = ChannelTraffic()
        self._endpoint = endpoint
        self._conversation: Conversation[OnResponse] = Conversation(
            client_id, copy_records=copy_records
        )
        self._frames = FrameBuffer(response_bytes_max)
        self._unsent = SendQueue()
        self._writer_sends = False
        self._writer_wanted = AutoResetEvent()
        self._running = trio.CancelScope()
        self._nursery: trio.Nursery | None = None
        # Requests that wait until the current reauthentication ends; None if there is none.
        self._held: deque[_Held] | None = None
        self._places = trio.Semaphore(IN_FLIGHT_MAX)
        self._why: Exception = ConnectionLost(
            f"the connection to {Address(*address[:2])} was closed"
        )

    @property
    def negotiated(self) -> Negotiated:
        """Returns the API versions and features that the node announced."""
        assert self._conversation.negotiated is not None
        return self._conversation.negotiated

    @property
    def unsent_bytes(self) -> int:
        """Returns the number of bytes of requests that the kernel has not accepted yet."""
        return self._unsent.size

    async def call(
        self,
        request: Message,
        *,
        version: int | None = None,
        timeout: float,  # noqa: ASYNC109 - it has an error of its own
    ) -> Any:
        """Sends `request` and returns its response.

        If `version` is None, the highest version that both sides support is used; `timeout` is in seconds and includes
        waiting for a place in flight.

        Raises:
            ConnectionLost: the connection is closed, or broke before the answer arrived.
            RequestTimedOut: a late answer will be dropped; the connection stays open.
            VersionMismatch: the node does not serve it; nothing was sent.
        """
        deadline = trio.current_time() + timeout
        waiter, has_place = _PendingCall(), False
        try:
            self._places.acquire_nowait()
            has_place = True
        except trio.WouldBlock:
            with trio.move_on_at(deadline):
                await self._places.acquire()
                has_place = True
        if has_place:
            try:
                self.ask(request, waiter.take, version=version)
                is_answered = await waiter.done.wait(deadline)
            finally:
                self._places.release()
            if is_answered:
                return waiter.result()
        name = type(request).__name__
        raise RequestTimedOut(f"{name}: no answer from {self._name} in {timeout} s")

    def ask(self, request: Message, on_response: OnResponse, *, version: int | None = None) -> None:
        """Sends `request` as `call` does, but no task waits: for callers with few requests in flight and their own
        clock.

        Raises:
            ConnectionLost, VersionMismatch: as `call` does; nothing was sent, and `on_response` will not be called.
        """
        self._check_open()
        self._request(request, version, on_response)

    def _request(
        self, request: Message, version: int | None, on_response: OnResponse | None
    ) -> None:
        if self._held is None:
            self._send(self._conversation.request(request, version, on_response))
        else:
            self._held.append(
                (request, self._conversation.version_of(request, version), on_response)
            )

    async def negotiate(
        self,
        timeout: float = CONNECT_SECONDS,  # noqa: ASYNC109
        security: ClientSecurity = PLAINTEXT,
    ) -> None:
        """Negotiates API versions and authenticates. It must be called before any `call`, while `run` is running.

        Raises:
            ConnectionLost, RequestTimedOut, VersionMismatch, AuthenticationRefused.
        """
        with trio.move_on_after(timeout) as scope:
            version: int | None = None
            while True:
                waiter = _PendingCall()
                hello = self._conversation.hello
                frame = hello(waiter.take) if version is None else hello(waiter.take, version)
                version = self._conversation.negotiate(await self._exchange(frame, waiter))
                if version is None:
                    break
            if security.sasl is not None:
                lifetime_ms = await self._log_in(security.sasl)
                if lifetime_ms and self._nursery is not None:
                    self._nursery.start_soon(self._keep_logged_in, security, lifetime_ms)
        if scope.cancelled_caught:
            raise RequestTimedOut(f"ApiVersions: no answer from {self._name} in {timeout} s")

    async def _log_in(self, credentials: ClientMechanism) -> int:
        """Logs in, and returns the lifetime of the login in milliseconds; 0 means unlimited."""
        exchange, host = credentials.exchange, self.address[0]
        if credentials.blocks:
            tokens = await trio.to_thread.run_sync(
                exchange, host, abandon_on_cancel=True, limiter=_LOGIN_THREADS
            )
        else:
            tokens = exchange(host)
        steps = login(credentials.mechanism, tokens)
        try:
            request = next(steps)
            while True:
                waiter = _PendingCall()
                frame = self._conversation.request(request, None, waiter.take)
                request = steps.send(await self._exchange(frame, waiter))
        except StopIteration as stop:
            return int(stop.value)

    async def _keep_logged_in(self, security: ClientSecurity, lifetime_ms: int) -> None:
        """Loops forever: logs in again before the login expires (KIP-368); requests wait meanwhile."""
        while lifetime_ms:
            await trio.sleep(lifetime_ms / 1000 * _RENEWED_AFTER)
            if security.sasl is None:
                return
            self._held = deque()
            try:
                with trio.fail_after(CONNECT_SECONDS):
                    lifetime_ms = await self._log_in(security.sasl)
            except ConnectionLost as error:
                self._close(error)
                self._running.cancel()
                return
            except trio.TooSlowError:
                self._close(RequestTimedOut(f"no answer to a login in {CONNECT_SECONDS} s"))
                self._running.cancel()
                return
            held, self._held = self._held, None
            for request, version, on_response in held:
                self._send(self._conversation.request(request, version, on_response))

    async def _exchange(self, frame: Outgoing, waiter: _PendingCall) -> Any:
        self._check_open()
        self._send(frame)
        await waiter.done.wait()
        return waiter.result()

    @property
    def _name(self) -> str:
        return str(self.address)

    def _check_open(self) -> None:
        waiting = self._conversation.unanswered_count + len(self._held or ())
        if waiting >= _UNANSWERED_MAX:
            self._close(RequestTimedOut(f"{_UNANSWERED_MAX} requests without an answer"))
        if self.closed.is_set():
            raise ConnectionLost(str(self._why)) from self._why

    def _send(self, frame: Outgoing) -> None:
        before = self._unsent.size
        self._unsent.add_frame(frame)
        self.traffic.requests += 1
        self.traffic.bytes_out += self._unsent.size - before
        if not self._writer_sends:
            try:
                self._endpoint.send_nowait(self._unsent)
            except OSError as error:
                self._close(error)
        if self._unsent:
            self._writer_wanted.set()

    def close(self) -> None:
        """Ends `run`; calls that wait fail with ConnectionLost."""
        self._close(None)
        self._running.cancel()

    async def run(self) -> None:
        """Reads and writes until either side closes the connection; raises only Cancelled."""
        try:
            with self._running:
                async with trio.open_nursery() as nursery:
                    self._nursery = nursery
                    nursery.start_soon(self._write)
                    await self._read()
                    nursery.cancel_scope.cancel()
        except* (OSError, trio.BrokenResourceError, trio.ClosedResourceError) as group:
            self._close(group.exceptions[0])
        except* RemoteProtocolError as group:
            events.CONNECTION_TO_NODE_DROPPED.log(
                log, node=self._name, error=str(group.exceptions[0])
            )
            self._close(group.exceptions[0])
        finally:
            self._close(None)
            with trio.CancelScope(shield=True):
                await self._endpoint.aclose()

    async def _read(self) -> None:
        taken = 0
        while await self._endpoint.receive(self._frames):
            while (frame := self._frames.next_frame()) is not None:
                self.traffic.responses += 1
                self.traffic.bytes_in += len(frame)
                on_response, response = self._conversation.receive(frame)
                on_response(response)
                del frame, on_response, response  # their views would pin the receive buffer
                taken += 1
                if taken % _RESPONSES_PER_TURN == 0:
                    await yield_to_loop()

    async def _write(self) -> None:
        while True:
            await self._writer_wanted.wait()
            self._writer_sends = True
            try:
                await self._endpoint.send(self._unsent)
            finally:
                self._writer_sends = False

    def _close(self, why: BaseException | None) -> None:
        if self.closed.is_set():
            return
        if why is not None:
            self._why = ConnectionLost(f"the connection to {self._name} broke: {why}")
            self._why.__cause__ = why
        self.closed.set()
        held = [on_response for _, _, on_response in self._held or () if on_response is not None]
        if self._conversation.unanswered_count:
            # An abandoned request must not take effect after the caller's next attempt, here or at another node
            # (AlterPartition).
            self._endpoint.give_up()
        for on_response in [*self._conversation.unanswered(), *held]:
            error = ConnectionLost(str(self._why))
            error.__cause__ = self._why
            on_response(error)


async def connect(
    host: str,
    port: int,
    *,
    timeout: float = CONNECT_SECONDS,  # noqa: ASYNC109
) -> socket.socket:
    """Returns a connected non-blocking TCP socket.

    Raises:
        ConnectRefused: every address of `host` refused: no process listens there.
        ConnectionLost: any other failure; the process may still be alive.
    """
    failures: list[OSError] = []
    with trio.move_on_after(timeout):
        await links.until_open(port)
        try:
            found = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (
            OSError,
            UnicodeError,
        ) as error:  # an impossible name fails before the lookup
            raise ConnectionLost(f"cannot look up {host}: {error}") from error
        for family, kind, protocol, _, address in found:
            try:
                with trio.socket.socket(family, kind, protocol) as sock:
                    await sock.connect(address)
                    return socket.socket(fileno=sock.detach())
            except OSError as error:  # or the address family is not available on this machine
                failures.append(error)
        cause = failures[-1]
        refused = all(error.errno == errno.ECONNREFUSED for error in failures)
        kind_of_error = ConnectRefused if refused else ConnectionLost
        raise kind_of_error(f"cannot connect to {Address(host, port)}: {cause.strerror}") from cause
    raise ConnectionLost(f"cannot connect to {Address(host, port)} in {timeout} s")


async def connect_endpoint(
    host: str,
    port: int,
    security: ClientSecurity,
    *,
    timeout: float = CONNECT_SECONDS,  # noqa: ASYNC109
) -> TransportLayer:
    """Connects as `connect` does, then performs the TLS handshake if `security` requires TLS.

    Raises:
        AuthenticationRefused: the node's certificate is not trusted, or it does not trust ours, or it does not use TLS.
    """
    sock = await connect(host, port, timeout=timeout)
    if security.tls is None:
        return links.guarded(SocketEndpoint(sock), port)
    try:
        endpoint = TlsEndpoint(sock, security.tls, server_name=host)
    except (OSError, ValueError) as error:  # reset, or no certificate can have this name
        sock.close()
        raise ConnectionLost(f"TLS with {Address(host, port)} failed: {error}") from error
    try:
        with trio.fail_after(timeout):
            await endpoint.handshake()
    except ssl.SSLError as error:
        await endpoint.aclose()
        raise AuthenticationRefused(f"TLS with {Address(host, port)} failed: {error}") from error
    except (OSError, trio.TooSlowError) as error:
        await endpoint.aclose()
        why = error if isinstance(error, OSError) else f"no handshake in {timeout} s"
        raise ConnectionLost(f"TLS with {Address(host, port)} failed: {why}") from error
    except BaseException:
        await endpoint.aclose()
        raise
    return links.guarded(endpoint, port)


@asynccontextmanager
async def open_node_connection(
    host: str,
    port: int,
    *,
    client_id: str | None = None,
    copy_records: bool = True,
    timeout: float = CONNECT_SECONDS,  # noqa: ASYNC109
    security: ClientSecurity = PLAINTEXT,
) -> AsyncIterator[NodeConnection]:
    """Connects, negotiates API versions and authenticates; closes the connection at the end of the block.

    With `copy_records=False` the record bytes of answers are views of the receive buffer. Such a view stays valid while
    it is referenced; it keeps a buffer of the size of the answer in memory. `timeout` is in seconds, and covers
    connecting and negotiating.

    Raises:
        ConnectRefused, ConnectionLost, RequestTimedOut, VersionMismatch: as `connect` and `negotiate` do. If the
        connection breaks, the body of the block is not interrupted: its calls fail and `.closed` is set.
    """
    endpoint = await connect_endpoint(host, port, security, timeout=timeout)
    connection = NodeConnection(endpoint, Address(host, port), client_id, copy_records=copy_records)
    failure: Exception | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.run)
        try:
            await connection.negotiate(timeout, security)
            yield connection
        except Exception as error:  # noqa: BLE001 - raised below: out of a nursery it would come in a group
            failure = error
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure
