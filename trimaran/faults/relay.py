"""Carries out the verdicts upon one connection, between a client and a broker: two readers and two writers.

Used in a node, between the socket and its connection (`trimaran.faults.in_node`), and by a proxy, between two sockets.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

import trio

from trimaran.faults.connection_faults import ConnectionFaults
from trimaran.faults.fault_set import FaultSet
from trimaran.faults.verdict_queue import VerdictQueue
from trimaran.faults.verdicts import (
    EndBoth,
    GoSilent,
    LimitRate,
    RelayVerdict,
    SendFrame,
    SendPart,
    Verdicts,
    WaitRelease,
    WaitSeconds,
)
from trimaran.wire.buffers.framing import SIZE_BYTES, FrameBuffer
from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.transport.endpoint.endpoint import TransportLayer
from trimaran.wire.transport.endpoint.send_queue import SendQueue

# The largest frame in either direction: the largest value of Kafka's `socket.request.max.bytes`.
RELAYED_BYTES_MAX = (1 << 31) - 1
# A throttled relay sends the bytes of this time at once, and then waits.
_PACE_SECONDS = 0.05
# The maximum size of frames that are sent together.
_BATCH_BYTES_MAX = 1 << 20

_CLOSED = (OSError, trio.BrokenResourceError, trio.ClosedResourceError, RemoteProtocolError)


@dataclass(slots=True)
class RelayedSide:
    """One side of a relay: its endpoint, and the verdicts about what is sent to it."""

    endpoint: TransportLayer
    verdicts: VerdictQueue
    bytes_per_second: float = 0.0
    is_silent: bool = False


class FaultRelay:
    """The relay of one connection; `run` returns when both sides have ended. It closes both.

    `end_of_requests` shows the broker that the client sends nothing more.
    """

    def __init__(
        self,
        client: TransportLayer,
        broker: TransportLayer,
        engine: ConnectionFaults,
        faults: FaultSet,
        end_of_requests: Callable[[], object],
    ) -> None:
        self._client = RelayedSide(client, VerdictQueue())
        self._broker = RelayedSide(broker, VerdictQueue())
        self._engine = engine
        self._faults = faults
        self._end_of_requests = end_of_requests
        self._scope = trio.CancelScope()
        self._client_has_ended = False

    def stop(self) -> None:
        """Ends both sides."""
        self._scope.cancel()

    async def run(self, received: bytes = b"") -> None:
        """Relays until a side ends; `received` are bytes of the client that were read before.

        An error of the engine ends only this connection: it is kept for the test, in `FaultSet.script_errors`.
        """
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._write_broker)
                    nursery.start_soon(self._write_client)
                    nursery.start_soon(self._read_broker)
                    await self._read_client(received)
        except* Exception as group:  # noqa: BLE001 - it is kept for the test
            self._faults.failed(group)
        finally:
            self._engine.on_close()
            with trio.CancelScope(shield=True):
                for side in (self._broker, self._client):
                    await side.endpoint.aclose()

    async def _read_client(self, received: bytes) -> None:
        with contextlib.suppress(*_CLOSED):
            frames = FrameBuffer(RELAYED_BYTES_MAX)
            frames.add(received)
            await self._relay(self._client.endpoint, frames, self._engine.on_request)
        self._client_has_ended = True
        self._broker.verdicts.close()

    async def _read_broker(self) -> None:
        with contextlib.suppress(*_CLOSED):
            frames = FrameBuffer(RELAYED_BYTES_MAX)
            await self._relay(self._broker.endpoint, frames, self._engine.on_response)
        self._client.verdicts.close()
        if self._client_has_ended:
            self._scope.cancel()  # a held frame no longer has a receiver

    async def _relay(
        self,
        endpoint: TransportLayer,
        frames: FrameBuffer,
        decide: Callable[[memoryview], Verdicts],
    ) -> None:
        while True:
            while (frame := frames.next_frame()) is not None:
                to_broker, to_client = decide(frame)
                del frame
                self._broker.verdicts.add(to_broker)
                self._client.verdicts.add(to_client)
            await self._broker.verdicts.wait_room()
            await self._client.verdicts.wait_room()
            if not await endpoint.receive(frames):
                return

    async def _write_broker(self) -> None:
        with contextlib.suppress(*_CLOSED):
            await self._carry_out_all(self._broker)
            self._end_of_requests()

    async def _write_client(self) -> None:
        with contextlib.suppress(*_CLOSED):
            await self._carry_out_all(self._client)
        self._scope.cancel()

    async def _carry_out_all(self, side: RelayedSide) -> None:
        while (verdict := await side.verdicts.take()) is not None:
            if not side.is_silent:
                await self._carry_out(verdict, side)

    async def _carry_out(self, verdict: RelayVerdict, side: RelayedSide) -> None:
        match verdict:
            case SendFrame() | SendPart():
                await self._send(verdict, side)
            case WaitSeconds(seconds):
                await trio.sleep(seconds)
            case WaitRelease(ticket):
                await self._wait_release(ticket)
            case LimitRate(rate):
                side.bytes_per_second = rate
            case GoSilent():
                side.is_silent = True
            case EndBoth(by_reset):
                if by_reset:
                    self._client.endpoint.give_up()
                self._scope.cancel()
                await trio.lowlevel.checkpoint()

    async def _wait_release(self, ticket: int) -> None:
        released, token = trio.Event(), trio.lowlevel.current_trio_token()
        if self._faults.when_released(ticket, lambda: token.run_sync_soon(released.set)):
            await released.wait()

    async def _send(self, verdict: SendFrame | SendPart, side: RelayedSide) -> None:
        queue = SendQueue()
        _add(queue, verdict)
        if side.bytes_per_second:
            await self._send_slowly(queue, side)
            return
        while queue.size < _BATCH_BYTES_MAX and side.verdicts.has_frame():
            further = side.verdicts.take_nowait()
            assert isinstance(further, SendFrame)
            _add(queue, further)
        await side.endpoint.send(queue)

    async def _send_slowly(self, queue: SendQueue, side: RelayedSide) -> None:
        data = b"".join(bytes(piece) for piece in queue.pieces)
        step = max(1, int(side.bytes_per_second * _PACE_SECONDS))
        for start in range(0, len(data), step):
            part = data[start : start + step]
            queue = SendQueue()
            queue.add_part(part)
            await side.endpoint.send(queue)
            await trio.sleep(len(part) / side.bytes_per_second)


def _add(queue: SendQueue, verdict: SendFrame | SendPart) -> None:
    queue.add_part(len(verdict.frame).to_bytes(SIZE_BYTES, "big"))
    queue.add_part(
        verdict.frame if isinstance(verdict, SendFrame) else verdict.frame[: verdict.size]
    )
