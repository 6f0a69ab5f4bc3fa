"""Links to other nodes that a test can cut: connections stay open, but no bytes pass in either direction.

For the node that connected, the network seems to drop every packet: the bytes that it sends wait, bytes for it arrive
after the cut ends, and new connections time out. Used by the nodes of a local cluster, which are identified by their
ports (`trimaran.local.links`). Otherwise no port is ever cut, and no connection is guarded.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import trio

from trimaran.wire.buffers.framing import FrameBuffer
from trimaran.wire.security.principal import Principal
from trimaran.wire.transport.endpoint.endpoint import TransportLayer
from trimaran.wire.transport.endpoint.send_queue import SendQueue

PORTS = 1 << 16
# The interval at which a cut link is checked: well below every timeout of a cluster, and cheap.
_POLL_SECONDS = 0.02
_cut_ports: Sequence[int] | None = None


def obey(cut_ports: Sequence[int]) -> None:
    """Makes every port whose byte in `cut_ports` is not 0 unreachable from this process; another process may write the
    bytes.
    """
    global _cut_ports  # noqa: PLW0603 - a fault is one of the whole process
    _cut_ports = cut_ports


def is_cut(port: int) -> bool:
    """Returns whether the link between this process and the listener of `port` is cut."""
    return _cut_ports is not None and bool(_cut_ports[port])


async def until_open(port: int) -> None:
    """Waits until the link is no longer cut; an intact link costs no checkpoint."""
    while is_cut(port):  # noqa: ASYNC110 - another process ends the cut
        await trio.sleep(_POLL_SECONDS)


def guarded(endpoint: TransportLayer, port: int) -> TransportLayer:
    """Returns `endpoint`, connected to `port`, wrapped so that cuts apply to it; unchanged if no link is ever cut."""
    return endpoint if _cut_ports is None else _GuardedEndpoint(endpoint, port)


class _GuardedEndpoint:
    """An endpoint that passes no bytes while its link is cut, and does not close either."""

    def __init__(self, endpoint: TransportLayer, port: int) -> None:
        self._endpoint = endpoint
        self._port = port
        self.received_at = endpoint.received_at
        self.seconds = 0.0

    async def handshake(self) -> Principal:
        await until_open(self._port)
        return await self._endpoint.handshake()

    async def receive(self, frames: FrameBuffer) -> int:
        """Receives into `frames`; the caller does not read them before this returns."""
        count = await self._endpoint.receive(frames)
        await until_open(self._port)
        self.received_at = time.perf_counter()
        return count

    def receive_nowait(self, frames: FrameBuffer) -> int:
        return 0 if is_cut(self._port) else self._endpoint.receive_nowait(frames)

    def send_nowait(self, queue: SendQueue) -> None:
        if not is_cut(self._port):
            self._endpoint.send_nowait(queue)

    async def send(self, queue: SendQueue) -> None:
        await until_open(self._port)
        await self._endpoint.send(queue)

    def peer_is_gone(self) -> bool:
        return not is_cut(self._port) and self._endpoint.peer_is_gone()

    def give_up(self) -> None:
        self._endpoint.give_up()

    async def aclose(self) -> None:
        """Closes the endpoint; the peer does not notice before the cut ends."""
        if is_cut(self._port):
            trio.lowlevel.spawn_system_task(self._close_later)
            await trio.lowlevel.cancel_shielded_checkpoint()
        else:
            await self._endpoint.aclose()

    async def _close_later(self) -> None:
        await until_open(self._port)
        await self._endpoint.aclose()
