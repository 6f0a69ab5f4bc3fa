"""The arguments of a handler: the call and its connection. Quotas use `Call.throttle`.

See `trimaran.wire.transport.scheduling.effects` for the form of a handler.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import trio

from trimaran.wire.identity import Address
from trimaran.wire.messages.registry import RESPONSES
from trimaran.wire.security.principal import ANONYMOUS, Principal
from trimaran.wire.text import events
from trimaran.wire.text.hosts import java_text
from trimaran.wire.transport.memory.pools import Memory
from trimaran.wire.transport.memory.room import LARGE_BYTES, ResponseRoom, Room
from trimaran.wire.transport.scheduling.loop_time import LoopTime, TurnOfRequests, Unscheduled

if TYPE_CHECKING:
    from trimaran.wire.messages.header import RequestHeader

log = logging.getLogger(__name__)

Callback = Callable[[], object]

# The longest muting: one request may use up many minutes of a small quota. Kafka does not limit the time, but forgets a
# client after an hour.
MUTED_SECONDS_MAX = 3600.0


@dataclass(slots=True, eq=False)
class ConnectionInfo:
    """A connection as handlers see it."""

    id: int
    listener: str
    peer: Address
    local: Address
    # The memory shared by the connections of this kind of listener; handlers that make large responses need it.
    memory: Memory = field(default_factory=Memory)
    # (name, version) from ApiVersions v3+ (KIP-511), in letters, digits, dots and dashes.
    client_software: tuple[str, str] | None = field(init=False, default=None)
    # Set by the certificate or by SASL, before the first request that needs a principal.
    principal: Principal = field(init=False, default=ANONYMOUS)
    closed: bool = field(init=False, default=False)
    # No bytes are read from the connection until this time, in seconds of trio's clock; None if it is not muted.
    muted_until: float | None = field(init=False, default=None)
    loop_time: LoopTime = field(init=False, default_factory=LoopTime)
    # The turns of the connection, in which a paused request resumes.
    turn: TurnOfRequests = field(init=False, default_factory=Unscheduled)
    # Returns the peer's address as Java formats it.
    peer_text: str = field(init=False)
    _callbacks: dict[Callback, None] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.peer_text = java_text(self.peer[0])

    def forwarding_for(self, peer: Address, principal: Principal) -> ConnectionInfo:
        """Returns this connection with the peer and the principal of a client whose request it forwards."""
        info = copy(self)
        info.peer, info.principal = peer, principal
        info.peer_text = java_text(peer[0])
        return info

    def on_close(self, callback: Callback) -> None:
        """Calls `callback` when the peer is found to be gone, or immediately if it already is; registers each callback
        only once.
        """
        if self.closed:
            _call(callback)
        else:
            self._callbacks[callback] = None

    def forget_on_close(self, callback: Callback) -> None:
        """Removes a callback; an unknown callback is not an error."""
        self._callbacks.pop(callback, None)

    def mute(self, seconds: float) -> float:
        """Stops reading for this long; answers are still sent. Returns the actual duration, at most
        `MUTED_SECONDS_MAX`.
        """
        seconds = min(seconds, MUTED_SECONDS_MAX)
        self.muted_until = max(trio.current_time() + seconds, self.muted_until or 0.0)
        return seconds

    def mark_closed(self) -> None:
        """Notes that the peer has closed the connection; only the transport calls this."""
        self.closed = True
        while self._callbacks:
            _call(self._callbacks.popitem()[0])

    def __str__(self) -> str:
        return f"connection {self.id} from {self.peer_text}:{self.peer[1]} on {self.listener}"


def _call(callback: Callback) -> None:
    try:
        callback()
    except Exception:  # a failure must not prevent further callbacks  # noqa: BLE001 - it is logged, with its traceback
        events.CONNECTION_CALLBACK_FAILED.log(log, exc_info=True)


@dataclass(slots=True)
class Call:
    """The properties of a request other than its body."""

    header: RequestHeader
    connection: ConnectionInfo
    # When the request was decoded, on the clock of `time.monotonic`.
    began: float = field(default_factory=time.monotonic)
    # The bytes of the received request, including its header.
    frame_bytes: int = 0
    # The approximate bytes that the call holds in memory.
    held: int = 0
    # True if the request or the response is large: computations over all items of either belong in the compute thread
    # (`compute_thread.run_apart`).
    heavy: bool = False
    # The seconds for which the connection is muted because of this request.
    throttle_ms: int = field(init=False, default=0)
    # True if the call's time on the event loop is not counted against quotas.
    is_exempt: bool = field(init=False, default=False)
    _room: ResponseRoom | None = field(init=False, default=None)

    def room(self) -> Room:
        """Returns the room for the response; the same object each time."""
        if self._room is None:
            of, version = RESPONSES[self.header.api_key], self.header.api_version
            self._room = ResponseRoom(of, version, self.connection.memory)
        return self._room

    def share_room(self, outer: Call) -> None:
        """Makes the response share the room of the response of `outer`, which will contain it."""
        self._room = outer._room = self.room()  # type: ignore[assignment]

    @property
    def wants_pause(self) -> bool:
        """Whether the response has grown so large that other requests must be served first. Read by the transport."""
        return self._room is not None and self._room.wants_pause()

    async def pause(self) -> None:
        """Waits for the memory that the response needs next, and lets other tasks run. Called by the transport."""
        assert self._room is not None
        await self._room.pause()

    @property
    def is_large(self) -> bool:
        """Whether encoding the response would block the loop."""
        return self.heavy or (self._room is not None and self._room.size > LARGE_BYTES)

    def close_room(self) -> None:
        """Releases the room: the response was passed on, or there will be none. Called by the transport."""
        if self._room is not None:
            self._room.close()

    def throttle(self, seconds: float) -> int:
        """Mutes the connection for this long; returns the throttle time in milliseconds for the response (KIP-219)."""
        muted_ms = round(self.connection.mute(seconds) * 1000) if seconds > 0 else 0
        self.throttle_ms = max(self.throttle_ms, muted_ms)
        return self.throttle_ms
