"""A client with plain blocking sockets, for command lines, Spark executors and scripts: it is quick to import, because
it does not use trio.

It sends one request at a time, and several threads must not share it. It is the I/O shell of
`trimaran.wire.client.calls`. Not implemented: pipelining.
"""

from __future__ import annotations

import math
import os
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from trimaran.wire.buffers.framing import FrameBuffer
from trimaran.wire.buffers.outgoing import Outgoing
from trimaran.wire.client.backoff import ExponentialBackoff
from trimaran.wire.client.bootstrap import Bootstrap, parse_bootstrap
from trimaran.wire.client.calls import RETRIED, Ask, Pause, Steps, refresh, routed_call
from trimaran.wire.client.conversation import RESPONSE_BYTES_MAX, Conversation
from trimaran.wire.client.coordinators import describe_transactions, find_coordinators
from trimaran.wire.client.destinations import AnyNode, CoordinatorNode, Destination, NodeWithId
from trimaran.wire.client.errors import (
    AuthenticationRefused,
    ConnectionLost,
    ConnectRefused,
    RequestTimedOut,
)
from trimaran.wire.client.routing import Routing
from trimaran.wire.client.versions import Negotiated
from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.identity import Address, NodeId
from trimaran.wire.schema import Message

if TYPE_CHECKING:
    import ssl

    from trimaran.wire.messages.describe_transactions import TransactionState
    from trimaran.wire.security.listener import ClientSecurity

# The client id of all our clients that are not given another one.
CLIENT_ID = "trimaran"
TIMEOUT_SECONDS = 30.0
CONNECT_SECONDS = 5.0
# The time in seconds for one node before the next one is tried: a suspended process still accepts connections.
ATTEMPT_SECONDS = 10.0
# The fraction of a login's lifetime after which we log in again; Kafka's clients use 85 to 95 %.
_RENEWED_AFTER = 0.85


class BlockingConnection:
    """A connection to one node, with negotiated versions.

    Raises:
        ConnectRefused, ConnectionLost, VersionMismatch: from the constructor and from `call`.
    """

    def __init__(
        self,
        address: Address,
        client_id: str | None = CLIENT_ID,
        *,
        timeout: float = CONNECT_SECONDS,
        security: ClientSecurity | None = None,
    ) -> None:
        self.address = address
        self._security = security
        # The time of `time.monotonic` after which we log in again before the next call (KIP-368).
        self._log_in_at = math.inf
        self._conversation: Conversation[int | None] = Conversation(client_id)
        self._frames = FrameBuffer(RESPONSE_BYTES_MAX)
        deadline = time.monotonic() + timeout
        self._socket = _connect(address, timeout)
        try:
            if security is not None and security.tls is not None:
                self._socket = self._wrapped(security.tls, deadline)
            self._negotiate(deadline)
            self._log_in(deadline)
        except BaseException:
            self.close()
            raise

    @property
    def negotiated(self) -> Negotiated:
        """Returns the capabilities that the node reported."""
        assert self._conversation.negotiated is not None
        return self._conversation.negotiated

    @property
    def peer_certificate(self) -> bytes | None:
        """Returns the certificate of the node in DER; None without TLS."""
        getpeercert = getattr(self._socket, "getpeercert", None)
        return None if getpeercert is None else getpeercert(binary_form=True)

    def call(
        self, request: Message, *, version: int | None = None, timeout: float = TIMEOUT_SECONDS
    ) -> Any:
        """Sends `request` and returns the response; after any error except VersionMismatch the connection is closed.

        Raises:
            ConnectionLost: the connection broke, or the answer was malformed.
            RequestTimedOut: no answer arrived within `timeout` seconds.
        """
        deadline = time.monotonic() + timeout
        if time.monotonic() >= self._log_in_at:
            self._log_in(deadline)
        frame = self._conversation.request(request, version, 0)
        return self._exchange(frame, deadline)

    def close(self) -> None:
        self._socket.close()

    def _negotiate(self, deadline: float) -> None:
        frame = self._conversation.hello(0)
        while True:
            version = self._conversation.negotiate(self._exchange(frame, deadline))
            if version is None:
                return
            frame = self._conversation.hello(0, version)

    def _wrapped(self, context: ssl.SSLContext, deadline: float) -> socket.socket:
        self._socket.settimeout(_left(deadline))
        try:
            return context.wrap_socket(self._socket, server_hostname=self.address[0])
        except TimeoutError as error:
            raise RequestTimedOut(f"TLS: no answer from {self.address} in time") from error
        except OSError as error:
            # Only SSLError concerns trust; it is compared by name, because the module is imported only if TLS is used.
            refused = "SSL" in type(error).__name__
            kind = AuthenticationRefused if refused else ConnectionLost
            raise kind(f"TLS with {self.address} failed: {error}") from error
        except ValueError as error:
            raise ConnectionLost(f"TLS with {self.address} failed: {error}") from error

    def _log_in(self, deadline: float) -> None:
        if self._security is None or self._security.sasl is None:
            return
        steps = self._security.login(self.address[0])
        try:
            request = next(steps)
            while True:
                frame = self._conversation.request(request, None, 0)
                request = steps.send(self._exchange(frame, deadline))
        except StopIteration as stop:
            lifetime = stop.value / 1000
            self._log_in_at = time.monotonic() + lifetime * _RENEWED_AFTER if lifetime else math.inf

    def _exchange(self, frame: Outgoing, deadline: float) -> Any:
        try:
            self._socket.settimeout(_left(deadline))
            self._socket.sendall(len(frame).to_bytes(4, "big") + frame)
            return self._conversation.receive(self._receive(deadline))[1]
        except TimeoutError as error:
            self.close()
            raise RequestTimedOut(f"no answer from {self.address} in time") from error
        except (OSError, RemoteProtocolError) as error:
            self.close()
            if "ALERT" in (
                getattr(error, "reason", None) or ""
            ):  # an SSLError: a missing or wrong certificate
                raise AuthenticationRefused(f"TLS with {self.address} failed: {error}") from error
            raise ConnectionLost(f"the connection to {self.address} broke: {error}") from error

    def _receive(self, deadline: float) -> memoryview:
        while (frame := self._frames.next_frame()) is None:
            self._socket.settimeout(_left(deadline))
            count = self._socket.recv_into(self._frames.room())
            if not count:
                raise ConnectionResetError("the node closed it")
            self._frames.received(count)
        return frame


class BlockingClient:
    """A client of a cluster; it connects at the first use."""

    def __init__(
        self,
        bootstrap: str | Iterable[Address],
        *,
        client_id: str | None = CLIENT_ID,
        of_controllers: bool = False,
        timeout: float = TIMEOUT_SECONDS,
        until: float = math.inf,
        security: ClientSecurity | None = None,
        waiting: Callable[[str], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        """Takes `of_controllers`: the addresses are those of controllers; `timeout`: the default time limit of a call
        in seconds; `until`: the time of `time.monotonic` at which every call ends; `security`: TLS and SASL, for every
        node; `waiting`: a context entered with a request's name while it is in flight.

        Raises:
            ValueError: `bootstrap` is not a list of addresses.
        """
        addresses = parse_bootstrap(bootstrap) if isinstance(bootstrap, str) else list(bootstrap)
        self.routing = Routing(Bootstrap(addresses), of_controllers=of_controllers)
        self._client_id = client_id
        self._timeout = timeout
        self._until = until
        self._security = security
        self._waiting = waiting
        self._connections: dict[Address, BlockingConnection] = {}

    def call(
        self,
        to: Destination | int | None,
        request: Message,
        *,
        version: int | None = None,
        timeout: float | None = None,
        attempt_timeout: float = ATTEMPT_SECONDS,
        retry_unknown: bool = True,
        retried: frozenset[int] = RETRIED,
    ) -> Any:
        """Sends the request to the node that `to` names (an id, or None for any) until the answer has no routing error
        (none of the codes in `retried`).

        Raises:
            RequestTimedOut: there was no such answer within `timeout` seconds; its cause is the last failure.
            VersionMismatch: the node does not serve the request.
            ConnectionLost: only without `retry_unknown`.
            KafkaError: this user may not look up the coordinator that `to` names.
        """
        destination = (
            AnyNode() if to is None else NodeWithId(NodeId(to)) if isinstance(to, int) else to
        )
        steps = routed_call(
            self.routing,
            request,
            destination,
            ExponentialBackoff(uniform=_uniform),
            version=version,
            retry_unknown=retry_unknown,
            retried=retried,
        )
        return self._drive(steps, timeout, attempt_timeout, type(request).__name__)

    def refresh(self, topics: Iterable[str] | None = (), *, timeout: float | None = None) -> Any:
        """Requests nodes, controller and the leaders of `topics` (None: of all); returns the answer."""
        names = None if topics is None else list(topics)
        steps = refresh(self.routing, names, ExponentialBackoff(uniform=_uniform))
        return self._drive(steps, timeout, ATTEMPT_SECONDS, "refresh")

    def find_coordinators(self, wanted: Sequence[CoordinatorNode]) -> None:
        """Finds the coordinators of groups, or of transactional ids, with one request for all unknown ones.

        Raises:
            RequestTimedOut: some were not found within the time limit of a call.
            VersionMismatch: the node finds only one coordinator per request (before 3.0).
            KafkaError: this user may not look up one of them.
        """
        steps = find_coordinators(self.routing, wanted, ExponentialBackoff(uniform=_uniform))
        self._drive(steps, None, ATTEMPT_SECONDS, "FindCoordinatorRequest")

    def describe_transactions(
        self, transactional_ids: Sequence[str], *, retried: frozenset[int] = RETRIED
    ) -> dict[str, TransactionState]:
        """Returns the transactions by id, with one request to each coordinator; errors in `retried` cause another
        request.

        Raises:
            RequestTimedOut, VersionMismatch, KafkaError: see `find_coordinators`.
        """
        backoff = ExponentialBackoff(uniform=_uniform)
        steps = describe_transactions(self.routing, transactional_ids, backoff, retried=retried)
        found: dict[str, TransactionState] = self._drive(
            steps, None, ATTEMPT_SECONDS, "DescribeTransactionsRequest"
        )
        return found

    def connection_to(
        self, address: Address, *, timeout: float = CONNECT_SECONDS
    ) -> BlockingConnection:
        """Returns the connection to `address`; opens it if necessary."""
        connection = self._connections.get(address)
        if connection is None:
            connection = BlockingConnection(
                address, self._client_id, timeout=timeout, security=self._security
            )
            self._connections[address] = connection
        return connection

    def close(self) -> None:
        """Closes all connections; the next call opens them again."""
        while self._connections:
            self._connections.popitem()[1].close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _drive(self, steps: Steps, timeout: float | None, attempt_timeout: float, name: str) -> Any:
        now = time.monotonic()
        seconds = min(self._timeout if timeout is None else timeout, self._until - now)
        deadline = now + seconds
        last: Exception | None = None
        with self._waiting(name):
            try:
                step = next(steps)
                while time.monotonic() < deadline:
                    if isinstance(step, Pause):
                        last = step.because
                        time.sleep(min(step.seconds, _left(deadline)))
                        step = steps.send(None)
                        continue
                    try:
                        until = min(deadline, time.monotonic() + attempt_timeout)
                        response = self._ask(step, until)
                    except (ConnectionLost, RequestTimedOut) as error:
                        last = error
                        lost = error
                        if isinstance(error, RequestTimedOut):
                            lost = ConnectionLost(str(error))
                            lost.__cause__ = error
                        step = steps.throw(lost)
                    else:
                        step = steps.send(response)
            except StopIteration as stop:
                return stop.value
        raise RequestTimedOut(f"{name}: no answer within {seconds:g} s ({last})") from last

    def _ask(self, step: Ask, deadline: float) -> Any:
        try:
            connection = self.connection_to(
                step.address, timeout=min(CONNECT_SECONDS, _left(deadline))
            )
            return connection.call(step.request, version=step.version, timeout=_left(deadline))
        except (ConnectionLost, RequestTimedOut):
            if broken := self._connections.pop(step.address, None):
                broken.close()
            raise


def _connect(address: Address, timeout: float) -> socket.socket:
    try:
        sock = socket.create_connection(address, timeout, all_errors=True)
    except ExceptionGroup as group:
        refused = all(isinstance(error, ConnectionRefusedError) for error in group.exceptions)
        kind = ConnectRefused if refused else ConnectionLost
        reason = group.exceptions[-1]
        raise kind(f"cannot connect to {address}: {reason}") from reason
    # An invalid host name raises an error before any look-up.
    except (OSError, UnicodeError) as error:
        raise ConnectionLost(f"cannot connect to {address}: {error}") from error
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def _left(deadline: float) -> float:
    """Returns the seconds until `deadline`; never zero, which would mean no wait."""
    return max(deadline - time.monotonic(), 0.001)


def _uniform() -> float:
    """Returns a random number in [0, 1): importing `random` takes longer than importing the rest of this module."""
    return int.from_bytes(os.urandom(4), "big") / 2**32
