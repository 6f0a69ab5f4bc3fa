"""The byte-moving end of a connection: a plain TCP socket, one with TLS, or any trio stream (memory in simulations).

A socket is tried first and waited for only when it is not ready; file pieces are sent by `sendfile`, through TLS in
bounded reads. A thread first reads the pieces that are on a disk only. For TLS contexts, see
`trimaran.wire.security.tls.contexts`.
"""

from __future__ import annotations

import contextlib
import enum
import os
import socket
import ssl
import struct
import time
from typing import Protocol

import trio

from trimaran.wire.buffers.framing import FrameBuffer
from trimaran.wire.security.principal import (
    ANONYMOUS,
    AS_THEY_ARE,
    NoMatchingRule,
    Principal,
    PrincipalMapping,
    principal_of_certificate,
)
from trimaran.wire.transport.endpoint.file_piece import FilePiece, is_cold, warm
from trimaran.wire.transport.endpoint.send_queue import SendQueue
from trimaran.wire.transport.scheduling.events import yield_to_loop

# Bytes of files given to the kernel between two checkpoints: about a quarter of a millisecond of copying.
_TURN_BYTES = 1 << 20
# The same for TLS, which also encrypts: about half a millisecond.
_TLS_TURN_BYTES = 1 << 18
# A stream is read, and file pieces go to one, in chunks of this size.
_BYTES_PER_READ = 65536
# Buffers in one `sendmsg`; far below IOV_MAX, and more never pile up in one turn.
_BUFFERS_MAX = 64

# More of the same frame follows: the kernel fills its packets instead of sending the head alone.
_MORE = getattr(socket, "MSG_MORE", 0)


_TCP_ESTABLISHED = 1
_NO_TIME_TO_LINGER = struct.pack("ii", 1, 0)


class _Next(enum.Enum):
    """The condition for sending more."""

    TURN = enum.auto()  # the others' turn
    WRITABLE = enum.auto()
    READABLE = enum.auto()
    WARM = enum.auto()  # the file piece at the front is not in memory


class TransportLayer(Protocol):
    """Errors of the connection come out as OSError or `trio.BrokenResourceError`."""

    # When it began to keep the loop with what `receive` returned last, on the clock of `time.perf_counter`.
    received_at: float
    # For how long `receive`, before that, and `send` kept the loop; the caller that has counted it sets it to 0.
    seconds: float

    async def handshake(self) -> Principal:
        """Negotiates with the peer before anything else, and returns its principal; ANONYMOUS if it shows none.

        Raises:
            ssl.SSLError: it speaks something else, or is not trusted.
        """

    async def receive(self, frames: FrameBuffer) -> int:
        """Receives some bytes into `frames`; returns how many, 0 when the peer sends no more."""

    def receive_nowait(self, frames: FrameBuffer) -> int:
        """Receives as `receive` does, only bytes that have come already; returns 0 also if there are none."""

    def send_nowait(self, queue: SendQueue) -> None:
        """Sends what can be sent without waiting, perhaps nothing."""

    async def send(self, queue: SendQueue) -> None:
        """Sends until the queue is empty, later additions included; no checkpoint if one turn is enough."""

    def peer_is_gone(self) -> bool:
        """Whether the peer will send no more, as far as that shows without reading."""

    def give_up(self) -> None:
        """Before `aclose`: bytes that the system has not sent yet are never sent, and the peer sees a reset. It would
        be sent for minutes else, in the background.
        """

    async def aclose(self) -> None:
        """Closes at once; tasks that wait get an error."""


class SocketEndpoint:
    """A connected non-blocking TCP socket, owned by this object."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        if sock.family in (socket.AF_INET, socket.AF_INET6):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = sock
        self._fd = sock.fileno()
        self.seconds = 0.0
        self.received_at = time.perf_counter()

    async def receive(self, frames: FrameBuffer) -> int:
        clock = time.perf_counter
        began = clock()
        try:
            count = self._socket.recv_into(frames.room())
        except BlockingIOError:
            frames.rest()
        else:
            frames.received(count)
            self.seconds += clock() - began
            await yield_to_loop()  # a peer that never lets us wait must not keep the others waiting
            self.received_at = clock()
            return count
        while True:
            await trio.lowlevel.wait_readable(self._socket)
            self.received_at = clock()
            try:
                count = self._socket.recv_into(frames.room())
            except BlockingIOError:
                continue
            frames.received(count)
            return count

    async def handshake(self) -> Principal:
        return ANONYMOUS

    def receive_nowait(self, frames: FrameBuffer) -> int:
        try:
            count = self._socket.recv_into(frames.room())
        except BlockingIOError:
            return 0
        frames.received(count)
        return count

    def send_nowait(self, queue: SendQueue) -> None:
        pieces = queue.pieces
        if len(pieces) > 1 or type(pieces[0]) is not bytearray:
            self._send_some(queue)
            return
        try:
            sent = self._socket.send(pieces[0], 0)
        except BlockingIOError:
            return
        queue.sent_bytes(sent)

    async def send(self, queue: SendQueue) -> None:
        while queue.size:
            began = time.perf_counter()
            wanted = self._send_some(queue)
            self.seconds += time.perf_counter() - began
            if queue.size:
                await _wait(self._socket, wanted, queue)

    def _send_some(self, queue: SendQueue) -> _Next:
        """Sends up to a turn's worth."""
        budget = queue.sent + _TURN_BYTES
        while queue.size and queue.sent < budget:
            piece = queue.pieces[0]
            try:
                if not isinstance(piece, FilePiece):
                    self._send_bytes(queue)
                elif is_cold(piece):
                    return _Next.WARM
                else:
                    self._send_file(queue, piece)
            except BlockingIOError:
                return _Next.WRITABLE
        return _Next.TURN

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
        count = min(piece.cached_until - piece.position, _TURN_BYTES)
        sent = os.sendfile(self._fd, piece.splice.fileno(), piece.position, count)
        if not sent:
            raise OSError("a file ends before the end of a slice of it")
        queue.sent_of_file(sent)

    def peer_is_gone(self) -> bool:
        return _peer_is_gone(self._socket)

    def give_up(self) -> None:
        _reset_when_closed(self._socket)

    async def aclose(self) -> None:
        if self._socket.fileno() >= 0:
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()
        await trio.lowlevel.cancel_shielded_checkpoint()


class TlsEndpoint:
    """A connected TCP socket with TLS over it, owned by this object; reader and writer are tasks of one thread."""

    def __init__(
        self,
        sock: socket.socket,
        context: ssl.SSLContext,
        *,
        server_name: str | None = None,
        names: PrincipalMapping = AS_THEY_ARE,
    ) -> None:
        """`server_name`: we are the client, and this is whom we want; None: we are the server, and `names` says who
        the client is.

        Raises:
            OSError: the peer has reset the connection; `sock` is the caller's still.
            ValueError: no certificate can have this name.
        """
        self._names = names
        sock.setblocking(False)
        sock.getpeername()  # of one that was reset `wrap_socket` would take the descriptor along
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = context.wrap_socket(
            sock,
            server_side=server_name is None,
            server_hostname=server_name,
            do_handshake_on_connect=False,
        )
        self.seconds = 0.0
        self.received_at = time.perf_counter()

    async def handshake(self) -> Principal:
        while True:
            try:
                self._socket.do_handshake()
            except ssl.SSLWantReadError:
                await trio.lowlevel.wait_readable(self._socket)
            except ssl.SSLWantWriteError:
                await trio.lowlevel.wait_writable(self._socket)
            else:
                return self._principal()

    def _principal(self) -> Principal:
        if not self._socket.server_side:
            return ANONYMOUS
        try:
            return principal_of_certificate(self._socket.getpeercert(), self._names)
        except NoMatchingRule as error:
            raise ssl.SSLError(str(error)) from error

    async def receive(self, frames: FrameBuffer) -> int:
        waited = False
        while True:
            began = time.perf_counter()
            try:
                count = self._socket.recv_into(frames.room())
            except ssl.SSLWantReadError:
                frames.rest()
                await trio.lowlevel.wait_readable(self._socket)
            except ssl.SSLWantWriteError:
                await trio.lowlevel.wait_writable(self._socket)
            else:
                frames.received(count)
                if waited:
                    self.received_at = began
                else:
                    self.seconds += time.perf_counter() - began
                    await yield_to_loop()
                    self.received_at = time.perf_counter()
                return count
            waited = True

    def receive_nowait(self, frames: FrameBuffer) -> int:
        try:
            count = self._socket.recv_into(frames.room())
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return 0
        frames.received(count)
        return count

    def send_nowait(self, queue: SendQueue) -> None:
        self._send_some(queue)

    async def send(self, queue: SendQueue) -> None:
        while queue.size:
            began = time.perf_counter()
            wanted = self._send_some(queue)
            self.seconds += time.perf_counter() - began
            if queue.size:
                await _wait(self._socket, wanted, queue)

    def _send_some(self, queue: SendQueue) -> _Next:
        """Sends up to a turn's worth. Bytes that OpenSSL took and could not send must come first again: pieces only
        grow.

        It takes all that it is given before it says how much that was, so it is given a turn's worth at the most.
        """
        budget = queue.sent + _TLS_TURN_BYTES
        while queue.size and queue.sent < budget:
            piece = queue.pieces[0]
            if isinstance(piece, FilePiece):
                if is_cold(piece):
                    return _Next.WARM
                queue.load_front(_BYTES_PER_READ)
                continue
            try:
                with memoryview(piece) as view, view[:_TLS_TURN_BYTES] as part:
                    sent = self._socket.send(part)
            except ssl.SSLWantWriteError:
                return _Next.WRITABLE
            except ssl.SSLWantReadError:
                return _Next.READABLE
            queue.sent_bytes(sent)
        return _Next.TURN

    def peer_is_gone(self) -> bool:
        return _peer_is_gone(self._socket)

    def give_up(self) -> None:
        _reset_when_closed(self._socket)

    async def aclose(self) -> None:
        if self._socket.fileno() >= 0:
            trio.lowlevel.notify_closing(self._socket)
            _say_goodbye(self._socket)
            self._socket.close()
        await trio.lowlevel.cancel_shielded_checkpoint()


def _say_goodbye(sock: ssl.SSLSocket) -> None:
    """Sends close_notify if there is room for it; the peer's is not waited for."""
    with contextlib.suppress(OSError, ValueError):
        sock.unwrap()


def _reset_when_closed(sock: socket.socket) -> None:
    if sock.fileno() >= 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_TIME_TO_LINGER)


def _peer_is_gone(sock: socket.socket) -> bool:
    """Asks for the state of TCP, which is the first byte of Linux's answer (tcp(7)); False on other systems."""
    if not hasattr(socket, "TCP_INFO") or sock.family not in (socket.AF_INET, socket.AF_INET6):
        return False
    return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] != _TCP_ESTABLISHED


async def _wait(sock: socket.socket, wanted: _Next, queue: SendQueue) -> None:
    match wanted:
        case _Next.TURN:
            await yield_to_loop()
        case _Next.WRITABLE:
            await trio.lowlevel.wait_writable(sock)
        case _Next.READABLE:
            await trio.lowlevel.wait_readable(sock)
        case _Next.WARM:
            piece = queue.pieces[0]
            assert isinstance(piece, FilePiece)
            await warm(piece)
