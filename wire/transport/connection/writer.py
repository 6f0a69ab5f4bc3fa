"""The writer of a connection: drives pending responses, one after another, and sends the known ones."""

from __future__ import annotations

from functools import partial

import trio

from trimaran.wire.buffers.outgoing import Outgoing
from trimaran.wire.transport.connection.core import ConnectionCore
from trimaran.wire.transport.connection.failed_logins import DelayedFailure
from trimaran.wire.transport.dispatch.running import RunningRequest
from trimaran.wire.transport.endpoint.endpoint import TransportLayer
from trimaran.wire.transport.endpoint.send_queue import NOTHING
from trimaran.wire.transport.memory.pools import EXPECTED_BYTES, holding
from trimaran.wire.transport.scheduling.events import AutoResetEvent, yield_to_loop
from trimaran.wire.transport.scheduling.turn import TURN_SECONDS, Turn


class Writer:
    """The writer. It sleeps while no response is pending; then the reader sends through `flush`. It also sleeps if the
    first pending response calls back when it is ready; the response is then sent immediately if the turn of the loop
    has room.

    `progress` is set when responses are sent or become known, so that the reader may begin more requests.
    """

    def __init__(self, endpoint: TransportLayer, core: ConnectionCore, turn: Turn) -> None:
        self.progress = AutoResetEvent()
        self._endpoint = endpoint
        self._core = core
        self._turn = turn
        self._wanted = AutoResetEvent()
        self._is_awake = False
        self._sends = False
        self._reading_ended = False
        self._failure: Exception | None = None
        # A response that is ready is sent at the end of the slice: further responses and the next flush may follow by
        # then.
        self._when_ready = partial(turn.slice_end.then, self._respond)

    def flush(self) -> None:
        """Ends the reader's slice and sends the known responses, before the reader waits."""
        core = self._core
        if core.unsent.size and not self._sends:
            self._endpoint.send_nowait(core.unsent)
        if not self._is_awake and (core.unsent.size or (core.owed and self._has_to_drive())):
            self._wanted.set()
        if core.unsent.size or core.owed_bytes or core.share.responses:
            core.count_responses()
        self._turn.end()

    def end(self) -> None:
        """Notes that reading has ended: `run` returns when all responses are sent."""
        self._reading_ended = True
        self._wanted.set()

    async def run(self) -> None:
        """Writes until reading has ended and all responses are sent."""
        core = self._core
        while True:
            await self._wanted.wait()
            if self._failure is not None:
                raise self._failure
            self._is_awake = True
            while core.unsent.size or (core.owed and self._has_to_drive()):
                await self._send_known()
                if core.owed:
                    await self._drive_pending()
            self._is_awake = False
            if not core.owed:
                core.owed = NOTHING
                if self._reading_ended:
                    return

    def _has_to_drive(self) -> bool:
        """Returns whether the first outstanding response is known, or will not wake the writer when it is known."""
        first = self._core.owed[0]
        return isinstance(first, Outgoing) or not first.calls_back(self._when_ready)

    def _respond(self) -> None:
        """Sends the first response, which has called back, or wakes the writer."""
        core, info = self._core, self._core.info
        pending, unsent = core.owed[0] if core.owed else None, core.unsent.size
        if (
            self._is_awake
            or unsent
            or not isinstance(pending, RunningRequest)
            or not pending.ready()
            or info.memory.responses.is_full
            or not self._turn.has_room()
        ):
            self._wanted.set()
            return
        held = pending.held
        try:
            pending.proceed_now()
            core.proceeded(pending, held)
            if core.unsent.size:  # the request may have paused again, or get no response
                self._endpoint.send_nowait(core.unsent)
        except Exception as error:  # noqa: BLE001 - it is for the writer's task, not for the one that calls back
            self._failure = error
        if core.unsent.size or core.share.responses:
            core.count_responses()
        self.progress.set()
        if core.owed or core.unsent.size or self._reading_ended or self._failure is not None:
            self._wanted.set()
        else:
            core.owed = NOTHING

    async def _send_known(self) -> None:
        """Sends all responses before the first pending one."""
        core = self._core
        core.first()
        if not core.unsent.size:
            return
        self._sends = True
        try:
            await self._endpoint.send(core.unsent)
        finally:
            self._sends = False
        core.count_responses()
        self.progress.set()
        if core.owed:
            await yield_to_loop()

    async def _drive_pending(self) -> None:
        """Drives the first pending response until it is known, and the following ones that need no wait."""
        core, loop_time = self._core, self._core.info.loop_time
        began, responses = loop_time.seconds, core.info.memory.responses
        while (pending := core.first()) is not None:
            if core.unsent.size and not pending.ready():
                return
            if responses.is_full and not core.share.responses:
                async with holding(responses, EXPECTED_BYTES):
                    pass
            held = pending.held
            if isinstance(pending, DelayedFailure):
                await trio.sleep(pending.seconds)
                pending.is_known = True
            else:
                await pending.proceed()
            core.proceeded(pending, held)
            core.count_responses()
            self.progress.set()
            if pending.is_known and (
                core.sends_enough() or loop_time.seconds - began > TURN_SECONDS
            ):
                return
