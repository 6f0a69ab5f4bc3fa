"""One connection in two tasks: the reader begins requests in order, the writer finishes them in the same order.

The reader cuts frames and calls handlers (stage one). While no answer is parked it sends answers itself, all those of
one receive together; from the first parked one on, answers queue up and the writer takes over: it awaits what is
parked when its turn comes and sends what is ready behind it along. So pipelined produces are appended in order and
share an fsync, a long poll holds up its own connection only, and a request costs neither a task nor an event.

Back-pressure: the reader begins nothing while `in_flight_max` answers or `unsent_bytes_max` bytes are owed, so the
kernel's buffers fill and the peer stops. Left out: accepting and idle connections (`wire.transport.server`).
"""

from __future__ import annotations

from collections import deque
from typing import Any

import trio

from wire.errors import RemoteProtocolError
from wire.framing import BadFrame, FrameBuffer
from wire.outgoing import Outgoing
from wire.transport.calls import CloseConnection, ConnectionInfo
from wire.transport.endpoint import Endpoint
from wire.transport.limited_log import LimitedLog
from wire.transport.limits import ConnectionLimits, Counters
from wire.transport.registry import Pending, Registry
from wire.transport.sending import SendQueue

# Requests begun between two checkpoints: about a millisecond of small ones.
_REQUESTS_PER_TURN = 32
# A frame that trickles in counts as progress only every so many bytes.
_PROGRESS_BYTES = 16384


class Connection:
    """Serves one peer; `serve` returns when the connection is closed, whoever closed it."""

    def __init__(
        self,
        endpoint: Endpoint,
        info: ConnectionInfo,
        registry: Registry[Any],
        context: Any,
        limits: ConnectionLimits,
        counters: Counters,
        limited_log: LimitedLog,
    ) -> None:
        self.info = info
        self._endpoint = endpoint
        self._registry = registry
        self._context = context
        self._limits = limits
        self._counters = counters
        self._log = limited_log
        self._frames = FrameBuffer(limits.frame_bytes_max)
        # Answers behind the first parked one, which is at the front; at most `in_flight_max`.
        self._owed: deque[Outgoing | Pending] = deque()
        self._unsent = SendQueue()
        self._writer_sends = False
        self._reading_ended = False
        self._writer_wanted = trio.Event()
        self._room_made = trio.Event()
        self._reading = trio.CancelScope()
        self._serving = trio.CancelScope()
        self._requests = 0

    async def serve(self) -> None:
        """Never raises but Cancelled: what goes wrong on one connection stays there."""
        try:
            with self._serving:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._write)
                    await self._read()
        except* (ConnectionError, TimeoutError, trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the peer is gone
        except* OSError as group:
            self._log.warning("os", "%s closes: %s", self.info, group.exceptions[0])
        except* CloseConnection as group:
            self._log.warning("close", "%s closes: %s", self.info, group.exceptions[0])
        except* Exception as group:  # noqa: BLE001 - a connection is isolated from its siblings
            self._log.exception("bug", group, "%s failed", self.info)
        finally:
            self.info.mark_closed()
            with trio.CancelScope(shield=True):
                await self._endpoint.aclose()

    def stop_reading(self) -> None:
        """Begins no further request; what is owed is still answered, then the connection closes."""
        self._reading.cancel()

    def abort(self) -> None:
        """Closes without answering."""
        self._serving.cancel()

    def progress(self) -> tuple[int, int, int] | None:
        """Stays the same while the peer does nothing; None while the peer waits for us."""
        if self._owed and not self._unsent:
            return None
        return self._requests, self._unsent.sent, self._frames.unread // _PROGRESS_BYTES

    def shrink(self) -> None:
        """Gives back memory that only a busy connection needs."""
        self._frames.shrink()

    # The reader

    async def _read(self) -> None:
        with self._reading:
            try:
                await self._read_requests()
            except BadFrame as error:
                self._counters.bad_frames += 1
                self._log.warning("frame", "%s closes: %s", self.info, error)
            except RemoteProtocolError as error:
                self._counters.bad_requests += 1
                self._log.warning("request", "%s closes: %a", self.info, str(error))
            except CloseConnection as error:
                self._log.warning("close", "%s closes: %a", self.info, str(error))
            self.info.mark_closed()
            self._serving.deadline = trio.current_time() + self._limits.half_closed_seconds
        self._reading_ended = True
        self._writer_wanted.set()

    async def _read_requests(self) -> None:
        while await self._endpoint.receive(self._frames):
            await self._begin_received()

    async def _begin_received(self) -> None:
        try:
            begun = 0
            while (frame := self._frames.next_frame()) is not None:
                self._begin(frame)
                frame = None
                begun += 1
                if self._is_full():
                    self._send_or_wake()
                    await self._wait_for_room()
                elif begun % _REQUESTS_PER_TURN == 0:
                    self._send_or_wake()
                    await trio.lowlevel.checkpoint()
        finally:
            self._send_or_wake()

    def _begin(self, frame: memoryview) -> None:
        self._requests += 1
        self._counters.requests += 1
        answer = self._registry.dispatch(frame, self._context, self.info)
        if answer is None:
            return
        if self._owed or isinstance(answer, Pending):
            self._owed.append(answer)
        else:
            self._unsent.add_frame(answer)

    def _send_or_wake(self) -> None:
        if self._unsent and not self._writer_sends:
            self._endpoint.send_nowait(self._unsent)
        if self._owed or self._unsent:
            self._writer_wanted.set()

    def _is_full(self) -> bool:
        return (
            len(self._owed) >= self._limits.in_flight_max
            or self._unsent.size >= self._limits.unsent_bytes_max
        )

    async def _wait_for_room(self) -> None:
        while self._is_full():
            self._room_made = trio.Event()
            await self._room_made.wait()

    # The writer

    async def _write(self) -> None:
        while True:
            await self._writer_wanted.wait()
            self._writer_wanted = trio.Event()
            while self._owed or self._unsent:
                await self._send_ready()
                if self._owed:
                    await self._finish_first()
            if self._reading_ended:
                self._serving.cancel()
                return

    async def _send_ready(self) -> None:
        """Sends everything up to the first answer that must be waited for."""
        self._take_ready()
        self._writer_sends = True
        try:
            await self._endpoint.send(self._unsent)
        finally:
            self._writer_sends = False
        self._room_made.set()

    def _take_ready(self) -> None:
        while self._owed and isinstance(answer := self._owed[0], Outgoing):
            self._owed.popleft()
            self._unsent.add_frame(answer)

    async def _finish_first(self) -> None:
        """Awaits the answer at the front, and those behind it that need no wait."""
        while self._owed:
            self._take_ready()
            if not self._owed:
                return
            pending = self._owed[0]
            assert isinstance(pending, Pending)
            if self._unsent and not pending.ready():
                return
            answer = await pending.finish()
            self._owed.popleft()
            self._room_made.set()
            if answer is not None:
                self._unsent.add_frame(answer)
            if self._unsent.size >= self._limits.unsent_bytes_max:
                return
