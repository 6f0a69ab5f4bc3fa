"""The writer of a connection: drives pending responses, one after another, and sends the known ones."""

from __future__ import annotations

from trimaran.wire.transport.connection.core import ConnectionCore
from trimaran.wire.transport.endpoint.endpoint import TransportLayer
from trimaran.wire.transport.endpoint.send_queue import NOTHING
from trimaran.wire.transport.memory.pools import EXPECTED_BYTES, holding
from trimaran.wire.transport.scheduling.events import AutoResetEvent, yield_to_loop
from trimaran.wire.transport.scheduling.turn import TURN_SECONDS, Turn


class Writer:
    """The writer. It sleeps while no response is pending, and the reader sends through `flush`. `progress` is set when
    responses are sent or become known, so that the reader may begin more requests.
    """

    def __init__(self, endpoint: TransportLayer, core: ConnectionCore, turn: Turn) -> None:
        self.progress = AutoResetEvent()
        self._endpoint = endpoint
        self._core = core
        self._turn = turn
        self._wanted = AutoResetEvent()
        self._sends = False
        self._reading_ended = False

    def flush(self) -> None:
        """Ends the reader's slice and sends the known responses, before the reader waits."""
        core = self._core
        if core.unsent.size and not self._sends:
            self._endpoint.send_nowait(core.unsent)
        if core.owed or core.unsent.size:
            self._wanted.set()
        if core.unsent.size or core.owed_bytes or core.share.answers:
            core.count_responses()
        self._turn.end()

    def end(self) -> None:
        """Takes note that reading has ended: `run` returns when all responses are sent."""
        self._reading_ended = True
        self._wanted.set()

    async def run(self) -> None:
        """Writes until reading has ended and all responses are sent."""
        core = self._core
        while True:
            await self._wanted.wait()
            while core.owed or core.unsent.size:
                await self._send_known()
                if core.owed:
                    await self._drive_pending()
            core.owed = NOTHING
            if self._reading_ended:
                return

    async def _send_known(self) -> None:
        """Sends everything before the first pending response."""
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
        began, answers = loop_time.seconds, core.info.memory.answers
        while (pending := core.first()) is not None:
            if core.unsent.size and not pending.ready():
                return
            if answers.is_full and not core.share.answers:
                async with holding(answers, EXPECTED_BYTES):
                    pass
            held = pending.held
            await pending.proceed()
            core.proceeded(pending, held)
            self.progress.set()
            if pending.is_known and (
                core.sends_enough() or loop_time.seconds - began > TURN_SECONDS
            ):
                return
