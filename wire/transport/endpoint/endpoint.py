"""The byte-moving end of a connection: a plain TCP socket, one with TLS, or any trio stream (memory in simulations).

A socket is tried first and waited for only if it is not ready. File pieces are sent by `sendfile`; with TLS they are
read in bounded chunks. A thread first reads pieces that are not in the page cache. For TLS contexts, see
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
from abc import ABC, abstractmethod
from typing import Generic, Protocol, TypeVar

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

S = TypeVar("S", bound=socket.socket)

# Bytes of files given to the kernel between two checkpoints: about a quarter of a millisecond of copying.
_TURN_BYTES = 1 << 20
# The corresponding number with TLS, which also encrypts: about half a millisecond.
_TLS_TURN_BYTES = 1 << 18
# Streams are read, and file pieces are written to them, in chunks of this size.
_BYTES_PER_READ = 65536
# The maximum number of buffers in one `sendmsg`: far below IOV_MAX, and more than accumulate in one turn.
_BUFFERS_MAX = 64

# More bytes of the same frame follow: the kernel fills its packets instead of sending the head in a packet of its own.
_MORE = getattr(socket, "MSG_MORE", 0)


_TCP_ESTABLISHED = 1
_NO_TIME_TO_LINGER = struct.pack("ii", 1, 0)


class _Next(enum.Enum):
    """The condition for sending more."""

    TURN = enum.auto()  # after other tasks have run
    WRITABLE = enum.auto()
    READABLE = enum.auto()
    WARM = enum.auto()  # after the file piece at the front was read: it is not in the page cache


class TransportLayer(Protocol):
    """The interface of all endpoints. Errors of the connection are raised as OSError or `trio.BrokenResourceError`."""

    # When the last `receive` began to occupy the loop, on the clock of `time.perf_counter`.
    received_at: float
    # The seconds for which `send`, and `receive` before that moment, occupied the loop; the caller counts them and
    # resets this to 0.
    seconds: float

    async def handshake(self) -> Principal:
        """Performs the TLS handshake, if any, and returns the peer's principal; ANONYMOUS without a client certificate.

        Raises:
            ssl.SSLError: the peer does not use TLS, or is not trusted.
        """

    async def receive(self, frames: FrameBuffer) -> int:
        """Receives some bytes into `frames`; returns their number, 0 at the end of the stream."""

    def receive_nowait(self, frames: FrameBuffer) -> int:
        """Receives bytes as `receive` does, but only those that have already arrived; returns 0 also if there are
        none.
        """

    def send_nowait(self, queue: SendQueue) -> None:
        """Sends the bytes that can be sent without waiting, possibly none."""

    async def send(self, queue: SendQueue) -> None:
        """Sends until the queue is empty, including later additions; no checkpoint if one turn suffices."""

    def peer_is_gone(self) -> bool:
        """Whether the peer has closed its side, as far as this is known without reading."""

    def give_up(self) -> None:
        """Makes `aclose` reset the connection: unsent bytes in the kernel are dropped, and the peer sees a reset.
        Otherwise the kernel would keep sending for minutes in the background.
        """

    async def aclose(self) -> None:
        """Closes immediately; waiting tasks get an error."""


class _TcpEndpoint(ABC, Generic[S]):
    """The common part of plain and TLS connections: a non-blocking socket, owned by this object."""

    _socket: S

    def __init__(self) -> None:
        self.seconds = 0.0
        self.received_at = time.perf_counter()

    async def send(self, queue: SendQueue) -> None:
        while queue.size:
            began = time.perf_counter()
            wanted = self._send_some(queue)
            self.seconds += time.perf_counter() - began
            if queue.size:
                await _wait(self._socket, wanted, queue)

    @abstractmethod
    def _send_some(self, queue: SendQueue) -> _Next:
        """Sends up to a turn's worth."""

    def peer_is_gone(self) -> bool:
        """Reads the state of TCP, the first byte of Linux's TCP_INFO (tcp(7)); returns False on other systems."""
        sock = self._socket
        if not hasattr(socket, "TCP_INFO") or sock.family not in (socket.AF_INET, socket.AF_INET6):
            return False
        return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] != _TCP_ESTABLISHED

    def give_up(self) -> None:
        if self._socket.fileno() >= 0:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_TIME_TO_LINGER)

    async def aclose(self) -> None:
        if self._socket.fileno() >= 0:
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()
        await trio.lowlevel.cancel_shielded_checkpoint()


class SocketEndpoint(_TcpEndpoint[socket.socket]):
    """A connected non-blocking TCP socket, owned by this object."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__()
        sock.setblocking(False)
        if sock.family in (socket.AF_INET, socket.AF_INET6):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = sock
        self._fd = sock.fileno()

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
            # A peer that always has data must not keep other connections waiting.
            await yield_to_loop()
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

    def _send_some(self, queue: SendQueue) -> _Next:
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


class TlsEndpoint(_TcpEndpoint[ssl.SSLSocket]):
    """A connected TCP socket with TLS over it, owned by this object; reader and writer are tasks of one thread."""

    def __init__(
        self,
        sock: socket.socket,
        context: ssl.SSLContext,
        *,
        server_name: str | None = None,
        names: PrincipalMapping = AS_THEY_ARE,
    ) -> None:
        """With `server_name` we are the client, and this is the server's expected name; with None we are the server,
        and `names` maps the client's certificate to its principal.

        Raises:
            OSError: the peer has reset the connection; the caller still owns `sock`.
            ValueError: no certificate can have the name `server_name`.
        """
        super().__init__()
        self._names = names
        sock.setblocking(False)
        sock.getpeername()  # `wrap_socket` takes over the descriptor even if the socket was reset
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = context.wrap_socket(
            sock,
            server_side=server_name is None,
            server_hostname=server_name,
            do_handshake_on_connect=False,
        )

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

    def _send_some(self, queue: SendQueue) -> _Next:
        """Sends up to a turn's worth. Bytes that OpenSSL accepted but could not send must be passed again first, so
        pieces only grow.

        OpenSSL consumes all bytes that it receives before it returns, so it receives at most the bytes of one turn.
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

    async def aclose(self) -> None:
        """Sends close_notify if there is room for it, and closes; does not wait for the close_notify of the peer."""
        if self._socket.fileno() >= 0:
            with contextlib.suppress(OSError, ValueError):
                self._socket.unwrap()
        await super().aclose()


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
            await trio.to_thread.run_sync(warm, piece)
