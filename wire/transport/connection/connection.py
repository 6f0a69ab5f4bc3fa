"""One connection in two tasks around its state (`ConnectionCore`): a reader and a writer.

The reader splits bytes into frames and begins requests, in turns with other connections. While no response is
pending, it also sends the responses, all responses to one receive together; otherwise the writer drives the pending
responses and sends. A request therefore costs neither a task nor an event. Accepting connections and closing idle ones
is done by `trimaran.wire.transport.server`.
"""

from __future__ import annotations

import ssl

import trio

from trimaran.wire.buffers.framing import BUFFER_BYTES_KEPT, BadFrame
from trimaran.wire.errors import CloseConnection, RemoteProtocolError
from trimaran.wire.security.listener import PLAINTEXT_LISTENER, ListenerSecurity
from trimaran.wire.text import events
from trimaran.wire.transport.connection.core import ConnectionCore, Service
from trimaran.wire.transport.connection.writer import Writer
from trimaran.wire.transport.endpoint.endpoint import TransportLayer
from trimaran.wire.transport.memory.pools import EXPECTED_BYTES, holding
from trimaran.wire.transport.requests.calls import ConnectionInfo
from trimaran.wire.transport.requests.elements import HEAVY_BYTES
from trimaran.wire.transport.scheduling.loop_time import LoopTimed
from trimaran.wire.transport.scheduling.loop_turns import loop_turns
from trimaran.wire.transport.scheduling.turn import Turn, TurnQueue

# The maximum number of concurrent logins by blocking mechanisms, over all connections; further ones wait.
LOGIN_THREADS = trio.CapacityLimiter(16)


class Connection:
    """Serves one peer; `serve` returns when the connection is closed, by either side."""

    def __init__(
        self,
        endpoint: TransportLayer,
        info: ConnectionInfo,
        service: Service,
        security: ListenerSecurity = PLAINTEXT_LISTENER,
        turns: TurnQueue | None = None,
    ) -> None:
        self.info = info
        self.core = ConnectionCore(info, service, security.sasl)
        self._endpoint = endpoint
        self._service = service
        self._reading = trio.CancelScope()
        self._serving = trio.CancelScope()
        self._deadline = self.core.deadline
        self._turn = info.turn = Turn(turns or TurnQueue(loop_turns()), info.loop_time)
        self._writer = Writer(endpoint, self.core, self._turn)

    async def serve(self) -> None:
        """Serves until the connection closes. Raises only Cancelled: an error affects only this connection."""
        log = self._service.log
        try:
            with self._serving:
                if await self._shake_hands():
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(self._write)
                        await self._read()
        except* (ConnectionError, TimeoutError, trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the peer has closed the connection
        except* (OSError, CloseConnection) as group:
            error = str(group.exceptions[0])
            log.log(events.CONNECTION_CLOSED, connection=self.info, error=error)
        except* Exception as group:
            log.log(events.CONNECTION_FAILED, exc_info=group, connection=self.info)
        finally:
            self.info.mark_closed()
            self._turn.end()
            self.core.close()  # closed here, because reference cycles may delay collection
            with trio.CancelScope(shield=True):
                await self._endpoint.aclose()

    async def _shake_hands(self) -> bool:
        """Returns whether TLS succeeded."""
        core = self.core
        core.connected()
        self._follow_deadline()
        try:
            self.info.principal = await self._endpoint.handshake()
        except ssl.SSLError as error:
            self._service.counters.failed_handshakes += 1
            if not isinstance(error, ssl.SSLEOFError):
                self._service.log.log(
                    events.CONNECTION_TLS_FAILED, connection=self.info, error=error
                )
            return False
        core.shook_hands()
        self._follow_deadline()
        return True

    def _follow_deadline(self) -> None:
        self._serving.deadline = self._deadline = self.core.deadline

    def stop_reading(self) -> None:
        """Begins no further requests; pending responses are still sent, then the connection closes."""
        self._reading.cancel()

    def abort(self) -> None:
        """Closes without answering."""
        self._serving.cancel()

    @property
    def received_at(self) -> float:
        """Returns the time when bytes last arrived, on the clock of `time.perf_counter`."""
        return self._endpoint.received_at

    @property
    def is_closing(self) -> bool:
        """Whether `abort` was called."""
        return self._serving.cancel_called

    def is_abandoned(self) -> bool:
        """Whether the peer has hung up while it is muted, hence not read."""
        return self.info.muted_until is not None and self._endpoint.peer_is_gone()

    async def _read(self) -> None:
        core = self.core
        with self._reading:
            try:
                await self._read_requests()
            except (RemoteProtocolError, CloseConnection) as error:
                core.count_error(error)
                self._log_end(error)
            self.info.mark_closed()
            core.half_closed()
            self._follow_deadline()
        self._writer.end()

    def _log_end(self, error: RemoteProtocolError | CloseConnection) -> None:
        log, info = self._service.log, self.info
        if isinstance(error, BadFrame):
            log.log(events.CONNECTION_BAD_FRAME, connection=info, error=error)
        elif isinstance(error, RemoteProtocolError):
            log.log(events.CONNECTION_BAD_REQUEST, connection=info, error=str(error))
        else:
            log.log(events.CONNECTION_CLOSED, connection=info, error=str(error))

    async def _write(self) -> None:
        await self._writer.run()
        self._serving.cancel()

    async def _read_requests(self) -> None:
        endpoint, core, turn = self._endpoint, self.core, self._turn
        frames, share, pool = core.frames, core.share, self.info.memory.frames
        while await endpoint.receive(frames):
            spent, endpoint.seconds = endpoint.seconds, 0.0
            await turn.begin(endpoint.received_at, spent)
            await self._begin_received()
            if frames.unread and frames.coming > share.frame:
                frames.shrink()
                await share.acquire_frame(frames.coming)
            elif share.frame > BUFFER_BYTES_KEPT and pool.waiting:
                core.shrink()
            if self.info.muted_until is not None:
                await self._wait_unmuted()

    async def _begin_received(self) -> None:
        core, turn, registry = self.core, self._turn, self._service.registry
        frames, unsent_max = core.frames, self._service.limits.unsent_bytes_max
        try:
            while True:
                frame = frames.next_frame()
                if frame is None:
                    # If an fsync waits for the end of the slice, requests that have arrived meanwhile share it.
                    joined = turn.may_be_joined() and not frames.unread
                    if joined and self._endpoint.receive_nowait(frames):
                        continue
                    return
                core.has_frame = True
                size = len(frame)
                if self.info.muted_until is not None or core.lacks_memory(size):
                    await self._wait_to_begin(size)
                if size > HEAVY_BYTES and registry.is_heavy(frame) and not core.is_at_login(frame):
                    await self._begin_heavy(frame)
                elif core.blocks_at_login and core.is_at_login(frame):
                    await self._begin_login(frame)
                else:
                    core.begin(frame)
                frame = None
                core.has_frame = False
                if (core.owed or core.unsent.size >= unsent_max) and core.is_full():
                    self._writer.flush()
                    while core.is_full():
                        await self._writer.progress.wait()
                    await turn.begin()
                elif turn.is_over() and frames.unread:
                    self._writer.flush()
                    await turn.begin()
        finally:
            frame = None  # a traceback would keep it
            if core.deadline != self._deadline:
                self._follow_deadline()
            self._writer.flush()

    async def _wait_unmuted(self) -> None:
        """Waits until the connection is not muted; meanwhile the writer still sends responses."""
        self._writer.flush()
        while (until := self.core.muted_until()) is not None:  # noqa: ASYNC110 - it may move
            await trio.sleep_until(until)

    async def _wait_to_begin(self, size: int) -> None:
        """Waits until the connection is not muted and has acquired the memory for a request of `size` bytes."""
        await self._wait_unmuted()
        if self.core.lacks_memory(size):
            for pool in (self.info.memory.requests, self.info.memory.responses):
                async with holding(pool, EXPECTED_BYTES):
                    pass
        await self._turn.begin()

    async def _begin_heavy(self, frame: memoryview) -> None:
        """Begins large requests one at a time: a large frame takes much more memory when it is decoded."""
        core, registry = self.core, self._service.registry
        try:
            self._writer.flush()
            while core.owed:
                await self._writer.progress.wait()
            core.count_request()
            async with holding(self.info.memory.requests, registry.memory_of(frame)):
                handling = registry.dispatch_heavy(frame, self._service.context, self.info)
                response = await LoopTimed(handling, self._turn)
                core.owe(response)
                if response is not None and core.is_blocked():
                    self._writer.flush()
                    while core.is_blocked():
                        await self._writer.progress.wait()
        finally:
            del frame  # a traceback would keep it

    async def _begin_login(self, frame: memoryview) -> None:
        """Runs a step of the login; a blocking mechanism gets a thread, for at most the time that a login may take."""
        core = self.core
        core.count_request()
        self._writer.flush()
        receive, data = core.authenticator.receive, memoryview(bytes(frame))
        reply = await trio.to_thread.run_sync(
            receive, data, abandon_on_cancel=True, limiter=LOGIN_THREADS
        )
        core.respond_to_login(reply, data)
