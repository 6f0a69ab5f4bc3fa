"""The state of one connection without I/O: order of responses, login, back-pressure, muting, and when it must close.

Bytes arrive through `frames` and leave through `unsent`; `trimaran.wire.transport.connection.connection` is the shell
around it. The rules, in the order in which they apply to a frame:

    muted         no bytes are read until `muted_until` (KIP-219); responses are still sent
    memory        no request begins while all connections together hold too much
    login         on a listener with SASL an authenticator receives the frames until the peer is authenticated, and
                  again when it reauthenticates (KIP-368); until then frames are small, and there is a `deadline`
    begin         the handler runs; its response is sent immediately if no earlier one is outstanding, otherwise it is
                  queued
    back-pressure no further request begins while `is_full`: a request blocks the next one, or too many or too large
                  requests are in flight, or the peer does not read its responses; the kernel's buffers then fill, and
                  the peer stops sending

Not implemented here: turns of the event loop, waiting, logging. This module imports no trio, neither itself nor
indirectly: whatever must be waited for is data, such as `DelayedFailure.seconds`.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from trimaran.wire.buffers.framing import BUFFER_BYTES_KEPT, BadFrame, FrameBuffer
from trimaran.wire.buffers.outgoing import Outgoing
from trimaran.wire.errors import CloseConnection, RemoteProtocolError
from trimaran.wire.schema import DECODE_BUDGET_BEFORE_AUTHENTICATION
from trimaran.wire.security.sasl.authenticator import (
    Authenticator,
    Login,
    LoginAction,
    SaslAuthenticator,
    SaslSettings,
)
from trimaran.wire.transport.connection.failed_logins import DelayedFailure
from trimaran.wire.transport.connection.limits import ConnectionLimits, Counters
from trimaran.wire.transport.connection.session import Session
from trimaran.wire.transport.endpoint.send_queue import NOTHING, SendQueue
from trimaran.wire.transport.memory.bounds import SMALL_BYTES
from trimaran.wire.transport.memory.share import MemoryShare

if TYPE_CHECKING:
    from trimaran.wire.transport.dispatch.registry import Registry
    from trimaran.wire.transport.dispatch.running import RunningRequest
    from trimaran.wire.transport.metrics.limited_log import LimitedLog
    from trimaran.wire.transport.requests.calls import ConnectionInfo

# A frame that arrives slowly counts as progress only once per this many bytes.
_PROGRESS_BYTES = 16384
# The corresponding number while other connections wait for memory.
_STALLED_BYTES = 65536

# A response that is not known yet.
Pending: TypeAlias = "RunningRequest | DelayedFailure"


@dataclass(slots=True, frozen=True, eq=False)
class Service:
    """The state that all connections of a server share. `clock` is that of the event loop, in seconds."""

    registry: Registry[Any]
    context: Any
    limits: ConnectionLimits
    clock: Callable[[], float]
    log: LimitedLog
    counters: Counters = field(default_factory=Counters)


class ConnectionCore:
    """The state of one connection. Only the reader begins requests, and only the writer drives pending responses."""

    __slots__ = (
        *(
            "_authenticator",
            "_failure_delay_seconds",
            "_finished",
            "_limits",
            "_newest",
            "_requests",
        ),
        *(
            "_sasl",
            "_service",
            "_session",
            "blocks_at_login",
            "deadline",
            "frames",
            "has_frame",
            "info",
            "owed",
        ),
        *("owed_bytes", "share", "unsent"),
    )

    def __init__(
        self, info: ConnectionInfo, service: Service, sasl: SaslSettings | None = None
    ) -> None:
        self.info = info
        # When the connection closes unless a login completes first, on the service's clock.
        self.deadline = math.inf
        # True if a frame was taken from the buffer and its request has not begun: the buffer is in use.
        self.has_frame = False
        # Responses that wait behind the first pending one, which is at the front; at most `in_flight_max`.
        self.owed: deque[Outgoing | Pending] = NOTHING
        # The total size of the queued responses that are known, in bytes.
        self.owed_bytes = 0
        self.share = MemoryShare(info.memory)
        self.unsent = SendQueue()
        self._service = service
        self._limits = limits = service.limits
        self._sasl = sasl
        # Whether a step of a login may wait for something.
        self.blocks_at_login = sasl is not None and sasl.blocks
        # None once the peer is authenticated.
        self._authenticator: Authenticator | None = None
        # Set only if the login expires.
        self._session: Session | None = None
        self._failure_delay_seconds = 0.0
        self._newest: Pending | None = None
        self._requests = 0
        self._finished = 0
        frame_bytes_max = limits.frame_bytes_max
        if sasl is not None:
            self._authenticator = SaslAuthenticator(sasl)
            frame_bytes_max = limits.frame_bytes_before_login(
                sasl.token_bytes_max, has_tickets=sasl.has_tickets
            )
        self.frames = FrameBuffer(frame_bytes_max)

    def connected(self) -> None:
        """Notes that the socket is connected; TLS and login must complete within `handshake_seconds`."""
        self.deadline = self._service.clock() + self._limits.handshake_seconds

    def shook_hands(self) -> None:
        """Notes that the TLS handshake is complete; without SASL the peer is authenticated."""
        if self._authenticator is None:
            self.deadline = math.inf

    # Requests

    @property
    def is_open(self) -> bool:
        """Whether every frame is a request, and no frame is part of a login."""
        return self._authenticator is None and self._session is None

    def is_at_login(self, frame: memoryview) -> bool:
        """Whether `frame` is for the authenticator: the first login, or a reauthentication.

        Raises:
            CloseConnection: the session has expired, and this is not a login.
        """
        if self._authenticator is not None:
            return True
        if self._session is None:
            return False
        now = self._service.clock()
        if self._session.begins_login(frame, now):
            self._authenticator = self._session.authenticator()
            self.deadline = now + self._limits.handshake_seconds
            return True
        if now >= self._session.ends_at:
            self._service.counters.expired_sessions += 1
            raise CloseConnection("its login has expired")
        return False

    def count_request(self) -> None:
        self._requests += 1
        self._service.counters.requests += 1

    def begin(self, frame: memoryview) -> None:
        """Handles one frame, which may be a step of a login.

        Raises:
            RemoteProtocolError: the frame is malformed; the connection closes once earlier responses have left.
            CloseConnection: the connection closes for another reason.
        """
        self._requests += 1
        service = self._service
        service.counters.requests += 1
        if self._authenticator is None and (self._session is None or not self.is_at_login(frame)):
            self.owe(service.registry.dispatch(frame, service.context, self.info))
        else:
            self.respond_to_login(self.authenticator.receive(frame), frame)

    @property
    def authenticator(self) -> Authenticator:
        """Returns the authenticator of the current login."""
        assert self._authenticator is not None
        return self._authenticator

    def respond_to_login(self, reply: LoginAction, frame: memoryview) -> None:
        """Carries out the authenticator's decision about `frame`. Raises as `begin` does."""
        service = self._service
        if reply.passes:
            budget = DECODE_BUDGET_BEFORE_AUTHENTICATION
            self.owe(service.registry.dispatch(frame, service.context, self.info, budget))
            return
        if reply.refused is not None:
            self.owe(service.registry.refuse(frame, reply.refused, reply.closes or ""))
        elif reply.delayed:
            assert self._sasl is not None
            base, failed = self._sasl.failure_delay_seconds, service.counters.failed_logins
            delay = failed.delay(self.info.peer[0], base, service.clock())
            self._failure_delay_seconds = delay
            self.owe(DelayedFailure(reply.response, delay))
        else:
            self.owe(reply.response)
        if reply.login is not None:
            self._open(reply.login)
        if reply.closes is not None:
            service.counters.failed_authentications += 1
            raise CloseConnection(reply.closes)

    def _open(self, login: Login) -> None:
        self.info.principal = login.principal
        self._authenticator = None
        before, self._session = self._session, None
        if login.session_ms is not None:
            assert self._sasl is not None
            ends_at = self._service.clock() + login.session_ms / 1000
            began = None if before is None else before.login_began
            self._session = Session(self._sasl, login, ends_at, began)
        self.frames.allow(self._limits.frame_bytes_max)
        self.deadline = math.inf

    # Back-pressure

    def is_blocked(self) -> bool:
        """Whether the newest request may still yield effects."""
        return self._newest is not None and self._newest.blocks

    def is_full(self) -> bool:
        """Whether no further request may begin now."""
        limits = self._limits
        return (
            (self._newest is not None and self._newest.blocks)
            or len(self.owed) >= limits.in_flight_max
            or self.unsent.size + self.owed_bytes >= limits.unsent_bytes_max
            or self.share.requests >= limits.in_flight_bytes_max
        )

    def lacks_memory(self, size: int) -> bool:
        """Whether a request of `size` bytes must wait for memory that other connections hold."""
        memory = self.info.memory
        responses, requests = memory.responses, memory.requests
        return responses.used >= responses.bytes_max or (size > SMALL_BYTES and requests.is_full)

    def muted_until(self) -> float | None:
        """Returns the time until which nothing is read; None if the connection is not muted."""
        until = self.info.muted_until
        if until is not None and until <= self._service.clock():
            until = self.info.muted_until = None
        return until

    def shrink(self) -> None:
        """Releases memory that only a busy connection needs. A request that blocks the next one may refer to the
        receive buffer.
        """
        is_used = self.has_frame or self.is_blocked()
        if not is_used and self.frames.coming <= BUFFER_BYTES_KEPT:
            self.frames.shrink()
            self.share.give_back_frame()

    # Responses

    def owe(self, response: Outgoing | Pending | None) -> None:
        """Queues the response to the newest request; None if the request gets no response."""
        if response is None:
            return
        if isinstance(response, Outgoing):
            if not self.owed:
                self.unsent.add_frame(response)
                return
            self.owed_bytes += len(response)
        else:
            self.share.take_request(response.held)
            self._newest = response
        if self.owed is NOTHING:
            self.owed = deque()
        self.owed.append(response)

    def first(self) -> Pending | None:
        """Moves known responses to `unsent`, in order; returns the pending response that is then at the front."""
        while self.owed:
            response = self.owed[0]
            if not isinstance(response, Outgoing):
                return response
            self.owed.popleft()
            self.owed_bytes -= len(response)
            self.unsent.add_frame(response)
        return None

    def proceeded(self, pending: Pending, held: int) -> None:
        """Updates the counts after progress of the pending response at the front, which held `held` bytes before."""
        if not pending.is_known:
            self.share.give_back_request(held - pending.held)
            return
        self.owed.popleft()
        self._finished += 1
        self.share.give_back_request(held)
        if pending is self._newest:
            self._newest = None
        if pending.response is not None:
            self.unsent.add_frame(pending.response)

    def sends_enough(self) -> bool:
        """Whether the unsent bytes must be sent before further responses are created."""
        return self.unsent.size >= self._limits.unsent_bytes_max

    def count_responses(self) -> None:
        """Charges the bytes of unsent responses to the node's memory."""
        held = self.unsent.in_memory + self.owed_bytes
        if held != self.share.responses:
            self.share.set_responses(held)

    # Closing

    def count_error(self, error: RemoteProtocolError | CloseConnection) -> None:
        """Counts an error of the peer; no bytes are read after it."""
        if isinstance(error, BadFrame):
            self._service.counters.bad_frames += 1
        elif isinstance(error, RemoteProtocolError):
            self._service.counters.bad_requests += 1

    def half_closed(self) -> None:
        """Stops reading. Pending responses are still sent, for at most `half_closed_seconds`."""
        seconds = self._limits.half_closed_seconds + self._failure_delay_seconds
        self.deadline = self._service.clock() + seconds

    def close(self) -> None:
        """Closes handlers that have not finished, and releases all memory."""
        self.frames.drop()
        for response in self.owed:
            if not isinstance(response, (Outgoing, DelayedFailure)):
                response.close()
        self.owed.clear()
        self.unsent = SendQueue()
        self.share.give_back_all()

    # Used by the server to find idle and stalled connections

    def progress(self) -> tuple[int, int, int] | None:
        """Returns a value that does not change while the peer makes no progress; None while the peer waits for this
        node.
        """
        if (self.owed and not self.unsent.size) or self.info.muted_until is not None:
            return None
        return self._requests, self.unsent.sent, self.frames.unread // _PROGRESS_BYTES

    def activity(self) -> tuple[int, int, int, int]:
        """Returns a value that does not change while no requests or responses move, or only a few bytes of one."""
        sent, unread = self.unsent.sent // _STALLED_BYTES, self.frames.unread // _STALLED_BYTES
        return self._requests, self._finished, sent, unread
