"""An endpoint for simulations."""

from __future__ import annotations

import os
import time

import trio

from trimaran.wire.buffers.framing import FrameBuffer
from trimaran.wire.security.principal import ANONYMOUS, Principal
from trimaran.wire.transport.endpoint.file_piece import FilePiece
from trimaran.wire.transport.endpoint.send_queue import SendQueue

_BYTES_PER_READ = 65_536


class StreamEndpoint:
    """An endpoint on any trio stream, such as memory in simulations. Pieces of files are read in bounded chunks."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self.seconds = 0.0
        self.received_at = time.perf_counter()

    async def handshake(self) -> Principal:
        return ANONYMOUS

    async def receive(self, frames: FrameBuffer) -> int:
        data = await self._stream.receive_some(_BYTES_PER_READ)
        self.received_at = time.perf_counter()
        view = memoryview(data)
        while view:
            room = frames.room()
            count = min(len(room), len(view))
            room[:count] = view[:count]
            del room
            frames.received(count)
            view = view[count:]
        return len(data)

    def receive_nowait(self, _frames: FrameBuffer) -> int:
        """Returns nothing, because a stream may always have to wait."""
        return 0

    def send_nowait(self, queue: SendQueue) -> None:
        """Sends nothing, because a stream may always have to wait."""

    async def send(self, queue: SendQueue) -> None:
        while queue.size:
            piece = queue.pieces[0]
            if isinstance(piece, FilePiece):
                count = min(piece.size, _BYTES_PER_READ)
                data = os.pread(piece.splice.fileno(), count, piece.position)
                if not data:
                    raise OSError("a file ends before the end of a slice of it")
                await self._stream.send_all(data)
                queue.sent_of_file(len(data))
            else:
                size = len(piece)
                await self._stream.send_all(bytes(piece))
                queue.sent_bytes(size)

    def peer_is_gone(self) -> bool:
        return False

    def give_up(self) -> None:
        """Does nothing, because a stream holds back no bytes."""

    async def aclose(self) -> None:
        await trio.aclose_forcefully(self._stream)
