"""The arguments of a handler: the call and its connection. Quotas use `Call.throttle`.

The form of a handler: `trimaran.wire.transport.scheduling.effects`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
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

# One request may be worth many minutes of a small quota. Kafka has no bound, but forgets a client after an hour.
MUTED_SECONDS_MAX = 3600.0


class CloseConnection(Exception):
    """Raised by a handler that cannot answer (acks=0 with an error): answers owed before it leave, then it closes."""


@dataclass(slots=True, eq=False)
class ConnectionInfo:
    """One connection as handlers see it."""

    id: int
    listener: str
    peer: Address
    local: Address
    # (name, version) as told by ApiVersions v3+ (KIP-511), in letters, digits, dots and dashes.
    client_software: tuple[str, str] | None = None
    # Fixed before the first request that needs one: by the certificate or by SASL.
    principal: Principal = ANONYMOUS
    closed: bool = False
    # In seconds of trio's clock, None for never: until then nothing of the connection is read.
    muted_until: float | None = None
    # The memory that all connections of this kind of listener hold; handlers that make large responses need it.
    memory: Memory = field(default_factory=Memory)
    loop_time: LoopTime = field(default_factory=LoopTime)
    # When a request that pauses goes on.
    turn: TurnOfRequests = field(default_factory=Unscheduled)
    # The address of the peer as Java prints it.
    peer_text: str = field(init=False)
    _callbacks: dict[Callback, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.peer_text = java_text(self.peer[0])

    def on_close(self, callback: Callback) -> None:
        """Calls `callback` as soon as the peer is seen to be gone, or at once if it is; the same one only once."""
        if self.closed:
            _call(callback)
        else:
            self._callbacks[callback] = None

    def forget_on_close(self, callback: Callback) -> None:
        """Takes a callback back; one that is not there is no error."""
        self._callbacks.pop(callback, None)

    def mute(self, seconds: float) -> float:
        """Nothing is read for so long, answers still leave. Returns how long: at most `MUTED_SECONDS_MAX`."""
        seconds = min(seconds, MUTED_SECONDS_MAX)
        self.muted_until = max(trio.current_time() + seconds, self.muted_until or 0.0)
        return seconds

    def mark_closed(self) -> None:
        """Takes note that the peer is gone; only the transport calls this."""
        self.closed = True
        while self._callbacks:
            _call(self._callbacks.popitem()[0])

    def __str__(self) -> str:
        return f"connection {self.id} from {self.peer_text}:{self.peer[1]} on {self.listener}"


def _call(callback: Callback) -> None:
    try:
        callback()
    except Exception:  # one part's callback must not keep the others from theirs  # noqa: BLE001 - it is logged, with its traceback
        events.CONNECTION_CALLBACK_FAILED.log(log, exc_info=True)


@dataclass(slots=True)
class Call:
    """One request beside its body."""

    header: RequestHeader
    connection: ConnectionInfo
    # When it was decoded, on the clock of `time.monotonic`.
    began: float = field(default_factory=time.monotonic)
    # Bytes of the request as it came, its header with it.
    frame_bytes: int = 0
    # The bytes that the call holds in memory, about.
    held: int = 0
    # The frame was large, or the answer is: what is computed of the whole of either belongs into the thread for that
    # (`compute_thread.run_apart`).
    heavy: bool = False
    # The connection is muted for this long on account of this request.
    throttle_ms: int = 0
    # True if the call's time on the event loop counts for no quota.
    is_exempt: bool = False
    _room: ResponseRoom | None = None

    def room(self) -> Room:
        """The room for the response, the same at each access."""
        if self._room is None:
            of, version = RESPONSES[self.header.api_key], self.header.api_version
            self._room = ResponseRoom(of, version, self.connection.memory)
        return self._room

    def share_room(self, outer: Call) -> None:
        """Puts the response into the room of `outer`, a call with a response that will contain it."""
        self._room = outer._room = self.room()  # type: ignore[assignment]

    @property
    def wants_pause(self) -> bool:
        """For the transport: whether the response has grown by so much that others are to be served first."""
        return self._room is not None and self._room.wants_pause()

    async def pause(self) -> None:
        """For the transport: waits for the memory that the response needs from now on, and lets others run."""
        assert self._room is not None
        await self._room.pause()

    @property
    def is_large(self) -> bool:
        """Whether encoding the response would hold the loop."""
        return self.heavy or (self._room is not None and self._room.size > LARGE_BYTES)

    def close_room(self) -> None:
        """For the transport: the response is handed on, or there will be none."""
        if self._room is not None:
            self._room.close()

    def throttle(self, seconds: float) -> int:
        """Mutes the connection for so long; returns the throttle time to put in the response, in ms (KIP-219)."""
        muted_ms = round(self.connection.mute(seconds) * 1000) if seconds > 0 else 0
        self.throttle_ms = max(self.throttle_ms, muted_ms)
        return self.throttle_ms
