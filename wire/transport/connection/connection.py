"""One connection in two tasks: the reader begins requests in order, the writer finishes them in the same order.

The reader cuts frames and calls handlers. While no response is outstanding it sends responses itself, all those of one
receive together; else they queue up and the writer takes over. So a request costs neither a task nor an event.

The reader begins nothing while the limits of the connection are used up, a request blocks the next one, or all
connections together hold too much (`trimaran.wire.transport.memory.pools`). A muted connection is not read (KIP-219).
On a listener with SASL an authenticator takes the frames until the peer is known.
"""

from __future__ import annotations

import math
import ssl
from collections import deque
from typing import Any

import trio

from trimaran.wire.buffers.framing import BUFFER_BYTES_KEPT, BadFrame, FrameBuffer
from trimaran.wire.buffers.outgoing import Outgoing
from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.schema import DECODE_BUDGET_BEFORE_AUTHENTICATION
from trimaran.wire.security.listener import PLAINTEXT_LISTENER, ListenerSecurity
from trimaran.wire.security.sasl import Authenticator, Login, Reply, SaslAuthenticator
from trimaran.wire.text import events
from trimaran.wire.transport.connection.failed_logins import DelayedAnswer
from trimaran.wire.transport.connection.limits import ConnectionLimits, Counters
from trimaran.wire.transport.connection.session import LOGIN_THREADS, Session
from trimaran.wire.transport.dispatch.registry import Registry
from trimaran.wire.transport.dispatch.running import RunningRequest
from trimaran.wire.transport.endpoint.endpoint import Endpoint
from trimaran.wire.transport.endpoint.send_queue import NOTHING, SendQueue
from trimaran.wire.transport.memory.pools import (
    EXPECTED_BYTES,
    SMALL_BYTES,
    Memory,
    MemoryPool,
    holding,
)
from trimaran.wire.transport.memory.share import MemoryShare
from trimaran.wire.transport.metrics.limited_log import LimitedLog
from trimaran.wire.transport.requests.calls import CloseConnection, ConnectionInfo
from trimaran.wire.transport.requests.elements import HEAVY_BYTES
from trimaran.wire.transport.scheduling.events import AutoResetEvent, yield_to_loop
from trimaran.wire.transport.scheduling.loop_time import LoopTimed
from trimaran.wire.transport.scheduling.loop_turns import loop_turns
from trimaran.wire.transport.scheduling.turn import TURN_SECONDS, Turn, TurnQueue

# A frame that trickles in counts as progress only every so many bytes.
_PROGRESS_BYTES = 16384
# The same while others wait for memory.
_STALLED_BYTES = 65536


class Connection:
    """Serves one peer; `serve` returns when the connection is closed, whoever closed it."""

    def __init__(
        self,
        endpoint: Endpoint,
        info: ConnectionInfo,
        registry: Registry[Any],
        context: Any,
        limits: ConnectionLimits,
        memory: Memory,
        counters: Counters,
        limited_log: LimitedLog,
        security: ListenerSecurity = PLAINTEXT_LISTENER,
        turns: TurnQueue | None = None,
    ) -> None:
        self.info = info
        self._endpoint = endpoint
        self._registry = registry
        self._context = context
        self._limits = limits
        self._memory = memory
        self._share = MemoryShare(memory)
        # A frame was taken from the buffer and has not begun: the buffer is in use.
        self._has_frame = False
        # Of answers that wait for the one at the front.
        self._owed_bytes = 0
        # The newest request whose response is not known.
        self._newest: RunningRequest | DelayedAnswer | None = None
        self._counters = counters
        self._log = limited_log
        # None once the peer is known; until then frames are small.
        self._authenticator: Authenticator | None = None
        self._sasl = security.sasl
        # Of a login that ends some time.
        self._session: Session | None = None
        self._failure_delay_seconds = 0.0
        frame_bytes_max = limits.frame_bytes_max
        if security.sasl is not None:
            self._authenticator = SaslAuthenticator(security.sasl)
            frame_bytes_max = limits.frame_bytes_before_login(security.sasl.token_bytes_max)
        self._frames = FrameBuffer(frame_bytes_max)
        # Answers behind the first deferred one, which is at the front; at most `in_flight_max`.
        self._owed: deque[Outgoing | RunningRequest | DelayedAnswer] = NOTHING
        self._unsent = SendQueue()
        self._writer_sends = False
        self._reading_ended = False
        self._writer_wanted = AutoResetEvent()
        self._room_made = AutoResetEvent()
        self._reading = trio.CancelScope()
        self._serving = trio.CancelScope()
        self._requests = 0
        self._finished = 0
        self._turn = info.turn = Turn(turns or TurnQueue(loop_turns()), info.loop_time)

    async def serve(self) -> None:
        """Never raises but Cancelled: what goes wrong on one connection stays there."""
        try:
            with self._serving:
                if await self._shake_hands():
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(self._write)
                        await self._read()
        except* (ConnectionError, TimeoutError, trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the peer is gone
        except* (OSError, CloseConnection) as group:
            error = str(group.exceptions[0])
            self._log.log(events.CONNECTION_CLOSED, connection=self.info, error=error)
        except* Exception as group:  # noqa: BLE001 - a connection is isolated from its siblings
            self._log.log(events.CONNECTION_FAILED, exc_info=group, connection=self.info)
        finally:
            self.info.mark_closed()
            self._let_go()
            with trio.CancelScope(shield=True):
                await self._endpoint.aclose()

    def _let_go(self) -> None:
        """Of its turn, and all memory, now: what is left of it may be a cycle, which waits long for the collector."""
        self._turn.end()
        self._frames.drop()
        for answer in self._owed:
            if isinstance(answer, RunningRequest):
                answer.close()
        self._owed.clear()
        self._unsent = SendQueue()
        self._share.give_back_all()

    async def _shake_hands(self) -> bool:
        """TLS, and whether it came to anything; until the peer is known the connection lives on borrowed time."""
        self._serving.deadline = trio.current_time() + self._limits.handshake_seconds
        try:
            self.info.principal = await self._endpoint.handshake()
        except ssl.SSLError as error:
            self._counters.failed_handshakes += 1
            if not isinstance(error, ssl.SSLEOFError):
                self._log.log(events.CONNECTION_TLS_FAILED, connection=self.info, error=error)
            return False
        if self._authenticator is None:
            self._serving.deadline = math.inf
        return True

    def stop_reading(self) -> None:
        """Begins no further request; what is owed is still answered, then the connection closes."""
        self._reading.cancel()

    def abort(self) -> None:
        """Closes without answering."""
        self._serving.cancel()

    @property
    def received_at(self) -> float:
        """When something came last, on the clock of `time.perf_counter`."""
        return self._endpoint.received_at

    @property
    def is_closing(self) -> bool:
        """`abort` was called."""
        return self._serving.cancel_called

    def progress(self) -> tuple[int, int, int] | None:
        """Stays the same while the peer does nothing; None while the peer waits for us."""
        if (self._owed and not self._unsent) or self.info.muted_until is not None:
            return None
        return self._requests, self._unsent.sent, self._frames.unread // _PROGRESS_BYTES

    def is_abandoned(self) -> bool:
        """Muted, hence not read, and the peer has hung up meanwhile."""
        return self.info.muted_until is not None and self._endpoint.peer_is_gone()

    def activity(self) -> tuple[int, int, int, int]:
        """Stays the same while the connection moves neither requests nor answers, or hardly any bytes of one."""
        return (
            self._requests,
            self._finished,
            self._unsent.sent // _STALLED_BYTES,
            self._frames.unread // _STALLED_BYTES,
        )

    def held_of(self, pool: MemoryPool) -> int:
        """Bytes of `pool` that are this connection's."""
        return self._share.of(pool)

    def shrink(self) -> None:
        """Gives back memory that only a busy connection needs."""
        if not self._has_frame and self._frames.coming <= BUFFER_BYTES_KEPT:
            self._frames.shrink()
            self._share.give_back_frame()

    async def _read(self) -> None:
        with self._reading:
            try:
                await self._read_requests()
            except BadFrame as error:
                self._counters.bad_frames += 1
                self._log.log(events.CONNECTION_BAD_FRAME, connection=self.info, error=error)
            except RemoteProtocolError as error:
                self._counters.bad_requests += 1
                self._log.log(events.CONNECTION_BAD_REQUEST, connection=self.info, error=str(error))
            except CloseConnection as error:
                self._log.log(events.CONNECTION_CLOSED, connection=self.info, error=str(error))
            self.info.mark_closed()
            seconds = self._limits.half_closed_seconds + self._failure_delay_seconds
            self._serving.deadline = trio.current_time() + seconds
        self._reading_ended = True
        self._writer_wanted.set()

    async def _read_requests(self) -> None:
        endpoint, frames, turn, share = self._endpoint, self._frames, self._turn, self._share
        while await endpoint.receive(frames):
            spent, endpoint.seconds = endpoint.seconds, 0.0
            await turn.begin(endpoint.received_at, spent)
            await self._begin_received()
            if frames.unread and frames.coming > share.frame:
                frames.shrink()
                await share.acquire_frame(frames.coming)
            elif share.frame > BUFFER_BYTES_KEPT and self._memory.frames.waiting:
                self.shrink()
            if self.info.muted_until is not None:
                await self._wait_unmuted()

    async def _begin_received(self) -> None:
        try:
            memory, frames, turn = self._memory, self._frames, self._turn
            while (frame := self._next_frame()) is not None:
                self._has_frame = True
                if self.info.muted_until is not None:
                    await self._wait_unmuted()
                    await turn.begin()
                size = len(frame)
                if memory.answers.is_full or (size > SMALL_BYTES and memory.requests.is_full):
                    await self._wait_for_memory()
                    await turn.begin()
                if size > HEAVY_BYTES and self._registry.is_heavy(frame):
                    await self._begin_heavy(frame)
                elif self._sasl is not None and self._sasl.blocks and self._is_at_login(frame):
                    await self._begin_login(frame)
                else:
                    self._begin(frame)
                frame = None
                self._has_frame = False
                if self._is_full():
                    self._send_or_wake()
                    await self._wait_for_room()
                    await turn.begin()
                elif frames.unread and turn.is_over():
                    self._send_or_wake()
                    await turn.begin()
        finally:
            frame = None  # a traceback would keep it
            self._send_or_wake()

    def _next_frame(self) -> memoryview | None:
        """Of what was received. Where a flush waits for the end of the slice, what has come meanwhile shares it."""
        frame = self._frames.next_frame()
        if frame is None and not self._frames.unread and self._turn.may_be_joined():
            self._endpoint.receive_nowait(self._frames)
            frame = self._frames.next_frame()
        return frame

    async def _wait_unmuted(self) -> None:
        """The writer goes on: what is answered leaves."""
        self._send_or_wake()
        while (until := self.info.muted_until) is not None:
            if until > trio.current_time():
                await trio.sleep_until(until)
            else:
                self.info.muted_until = None

    async def _wait_for_memory(self) -> None:
        self._send_or_wake()
        for pool in (self._memory.requests, self._memory.answers):
            async with holding(pool, EXPECTED_BYTES):
                pass

    async def _begin_heavy(self, frame: memoryview) -> None:
        """One at a time: what is decoded of a large frame is much larger, and may be handled in many turns."""
        try:
            if self._is_at_login(frame):
                self._begin(frame)
                return
            self._send_or_wake()
            await self._wait_answered()
            self._requests += 1
            self._counters.requests += 1
            async with holding(self._memory.requests, self._registry.memory_of(frame)):
                handling = self._registry.dispatch_heavy(frame, self._context, self.info)
                answer = await LoopTimed(handling, self._turn)
                self._owe(answer)
                if isinstance(answer, RunningRequest) and answer.blocks:
                    self._send_or_wake()
                    while answer.blocks:
                        await self._room_made.wait()
        finally:
            del frame  # a traceback would keep it

    async def _wait_answered(self) -> None:
        while self._owed:
            await self._room_made.wait()

    def _begin(self, frame: memoryview) -> None:
        self._requests += 1
        self._counters.requests += 1
        self.info.owes = bool(self._owed)
        is_open = self._authenticator is None and self._session is None
        if is_open or not self._is_at_login(frame):
            self._owe(self._registry.dispatch(frame, self._context, self.info))
            return
        assert self._authenticator is not None
        self._answer_login(self._authenticator.receive(frame), frame)

    async def _begin_login(self, frame: memoryview) -> None:
        """For a mechanism that waits for somebody: at most as long as a login may take."""
        assert self._authenticator is not None
        self._requests += 1
        self._counters.requests += 1
        self._send_or_wake()
        receive, data = self._authenticator.receive, memoryview(bytes(frame))
        reply = await trio.to_thread.run_sync(
            receive, data, abandon_on_cancel=True, limiter=LOGIN_THREADS
        )
        self._answer_login(reply, data)

    def _answer_login(self, reply: Reply, frame: memoryview) -> None:
        if reply.passes:
            budget = DECODE_BUDGET_BEFORE_AUTHENTICATION
            self._owe(self._registry.dispatch(frame, self._context, self.info, budget))
        else:
            self._take(reply, frame)

    def _owe(self, answer: Outgoing | RunningRequest | DelayedAnswer | None) -> None:
        if answer is None:
            return
        if isinstance(answer, Outgoing):
            if not self._owed:
                self._unsent.add_frame(answer)
                return
            self._owed_bytes += len(answer)
        else:
            self._share.take_request(answer.held)
            self._newest = answer
        if self._owed is NOTHING:
            self._owed = deque()
        self._owed.append(answer)

    def _take(self, reply: Reply, frame: memoryview) -> None:
        """Does what the authenticator says."""
        if reply.refused is not None:
            self._owe(self._registry.refuse(frame, reply.refused, reply.closes or ""))
        elif reply.delayed:
            assert self._sasl is not None
            base, now = self._sasl.failure_delay_seconds, trio.current_time()
            delay = self._counters.failed_logins.delay(self.info.peer[0], base, now)
            self._failure_delay_seconds = delay
            self._owe(DelayedAnswer(reply.answer, self._failure_delay_seconds))
        else:
            self._owe(reply.answer)
        if reply.login is not None:
            self._open(reply.login)
        if reply.closes is not None:
            self._counters.failed_authentications += 1
            raise CloseConnection(reply.closes)

    def _is_at_login(self, frame: memoryview) -> bool:
        """Whether `frame` is for the authenticator: the first login, or another one of an open connection.

        Raises:
            CloseConnection: the session has ended, and this is no login.
        """
        if self._authenticator is not None:
            return True
        if self._session is None:
            return False
        now = trio.current_time()
        if self._session.begins_login(frame, now):
            self._authenticator = self._session.authenticator()
            self._serving.deadline = now + self._limits.handshake_seconds
            return True
        if now >= self._session.ends_at:
            self._counters.expired_sessions += 1
            raise CloseConnection("its login has expired")
        return False

    def _open(self, login: Login) -> None:
        self.info.principal = login.principal
        self._authenticator = None
        before, self._session = self._session, None
        if login.session_ms is not None:
            assert self._sasl is not None
            ends_at = trio.current_time() + login.session_ms / 1000
            began = None if before is None else before.login_began
            self._session = Session(self._sasl, login, ends_at, began)
        self._frames.allow(self._limits.frame_bytes_max)
        self._serving.deadline = math.inf

    def _send_or_wake(self) -> None:
        """Ends what is begun for now: the reader is about to wait."""
        if self._unsent.size and not self._writer_sends:
            self._endpoint.send_nowait(self._unsent)
        if self._owed or self._unsent.size:
            self._writer_wanted.set()
        if self._unsent.size or self._owed_bytes or self._share.answers:
            self._count_answers()
        self._turn.end()

    def _is_full(self) -> bool:
        return (
            (self._newest is not None and self._newest.blocks)
            or len(self._owed) >= self._limits.in_flight_max
            or self._unsent.size + self._owed_bytes >= self._limits.unsent_bytes_max
            or self._share.requests >= self._limits.in_flight_bytes_max
        )

    def _count_answers(self) -> None:
        held = self._unsent.in_memory + self._owed_bytes
        if held != self._share.answers:
            self._share.set_answers(held)

    async def _wait_for_room(self) -> None:
        while self._is_full():
            await self._room_made.wait()

    async def _write(self) -> None:
        while True:
            await self._writer_wanted.wait()
            while self._owed or self._unsent:
                await self._send_ready()
                if self._owed:
                    await self._finish_first()
            self._owed = NOTHING
            if self._reading_ended:
                self._serving.cancel()
                return

    async def _send_ready(self) -> None:
        """Sends everything up to the first answer that must be waited for."""
        self._take_ready()
        if not self._unsent:
            return
        self._writer_sends = True
        try:
            await self._endpoint.send(self._unsent)
        finally:
            self._writer_sends = False
        self._count_answers()
        self._room_made.set()
        if self._owed:
            await yield_to_loop()

    def _take_ready(self) -> None:
        while self._owed and isinstance(answer := self._owed[0], Outgoing):
            self._owed.popleft()
            self._owed_bytes -= len(answer)
            self._unsent.add_frame(answer)

    async def _finish_first(self) -> None:
        """Awaits the answer at the front, and those behind it that need no wait."""
        began = self.info.loop_time.seconds
        while self._owed:
            self._take_ready()
            if not self._owed:
                return
            deferred = self._owed[0]
            assert not isinstance(deferred, Outgoing)
            if self._unsent and not deferred.ready():
                return
            if self._memory.answers.is_full and not self._share.answers:
                async with holding(self._memory.answers, EXPECTED_BYTES):
                    pass
            held = deferred.held
            await deferred.proceed()
            self._room_made.set()
            if not deferred.is_known:
                self._share.give_back_request(held - deferred.held)
                continue
            self._owed.popleft()
            self._finished += 1
            self._share.give_back_request(held)
            if deferred is self._newest:
                self._newest = None
            if deferred.response is not None:
                self._unsent.add_frame(deferred.response)
                self._count_answers()
            has_taken = self.info.loop_time.seconds - began
            if self._unsent.size >= self._limits.unsent_bytes_max or has_taken > TURN_SECONDS:
                return
