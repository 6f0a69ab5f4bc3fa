"""The byte-moving end of a connection: a plain TCP socket, or any trio stream (TLS, memory).

A socket is tried first and waited for only when it is not ready; file pieces go by `sendfile`. Left out: TLS set-up.
"""

from __future__ import annotations

import os
import socket
from typing import Protocol

import trio

from wire.framing import FrameBuffer
from wire.transport.sending import FilePiece, SendQueue

# Bytes of files given to the kernel between two checkpoints: about a quarter of a millisecond of copying.
_TURN_BYTES = 1 << 20
# A stream is read, and file pieces go to one, in chunks of this size.
_BYTES_PER_READ = 65536
# Buffers in one `sendmsg`; far below IOV_MAX, and more never pile up in one turn.
_BUFFERS_MAX = 64

# More of the same frame follows: the kernel fills its packets instead of sending the head alone.
_MORE = getattr(socket, "MSG_MORE", 0)


class Endpoint(Protocol):
    """Errors of the connection come out as OSError or `trio.BrokenResourceError`."""

    async def receive(self, frames: FrameBuffer) -> int:
        """Receives some bytes into `frames`; returns how many, 0 when the peer sends no more."""

    def send_nowait(self, queue: SendQueue) -> None:
        """Sends what can be sent without waiting, perhaps nothing."""

    async def send(self, queue: SendQueue) -> None:
        """Sends until the queue is empty, what is added meanwhile included."""

    async def aclose(self) -> None:
        """Closes at once; whoever waits gets an error."""


class SocketEndpoint:
    """A connected non-blocking TCP socket, owned by this object."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        if sock.family in (socket.AF_INET, socket.AF_INET6):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = sock
        self._fd = sock.fileno()

    async def receive(self, frames: FrameBuffer) -> int:
        try:
            count = self._socket.recv_into(frames.room())
        except BlockingIOError:
            pass
        else:
            frames.received(count)
            await (
                trio.lowlevel.checkpoint()
            )  # a peer that never lets us wait must not keep the others waiting
            return count
        while True:
            await trio.lowlevel.wait_readable(self._socket)
            try:
                count = self._socket.recv_into(frames.room())
            except BlockingIOError:
                continue
            frames.received(count)
            return count

    def send_nowait(self, queue: SendQueue) -> None:
        self._send_some(queue)

    async def send(self, queue: SendQueue) -> None:
        while queue:
            if self._send_some(queue):
                await trio.lowlevel.checkpoint()
            else:
                await trio.lowlevel.wait_writable(self._socket)

    def _send_some(self, queue: SendQueue) -> bool:
        """Sends up to a turn's worth; False if the socket took no more."""
        budget = queue.sent + _TURN_BYTES
        while queue and queue.sent < budget:
            piece = queue.pieces[0]
            try:
                if isinstance(piece, FilePiece):
                    self._send_file(queue, piece)
                else:
                    self._send_bytes(queue)
            except BlockingIOError:
                return False
        return True

    def _send_bytes(self, queue: SendQueue) -> None:
        buffers: list[bytearray | memoryview] = []
        more = 0
        for piece in queue.pieces:
            if isinstance(piece, FilePiece) or len(buffers) == _BUFFERS_MAX:
                more = _MORE
                break
            buffers.append(piece)
        if len(buffers) == 1:
            sent = self._socket.send(buffers[0], more)
        else:
            sent = self._socket.sendmsg(buffers, (), more)
        queue.sent_bytes(sent)

    def _send_file(self, queue: SendQueue, piece: FilePiece) -> None:
        count = min(piece.size, _TURN_BYTES)
        sent = os.sendfile(self._fd, piece.splice.fileno(), piece.position, count)
        if not sent:
            raise OSError("a file ends before the end of a slice of it")
        queue.sent_of_file(sent)

    async def aclose(self) -> None:
        if self._socket.fileno() >= 0:
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()
        await trio.lowlevel.cancel_shielded_checkpoint()


class StreamEndpoint:
    """Any trio stream: TLS, or memory in simulations. File pieces are read in bounded chunks."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream

    async def receive(self, frames: FrameBuffer) -> int:
        data = await self._stream.receive_some(_BYTES_PER_READ)
        view = memoryview(data)
        while view:
            room = frames.room()
            count = min(len(room), len(view))
            room[:count] = view[:count]
            del room
            frames.received(count)
            view = view[count:]
        return len(data)

    def send_nowait(self, queue: SendQueue) -> None:
        """A stream always may have to wait."""

    async def send(self, queue: SendQueue) -> None:
        while queue:
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

    async def aclose(self) -> None:
        await trio.aclose_forcefully(self._stream)
