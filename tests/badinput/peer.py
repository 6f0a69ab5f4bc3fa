"""A peer that sends arbitrary bytes over a plain socket, and reads frames."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterator
from typing import Any

from trimaran.wire.codec.declarations import Struct
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.header import decode_response_header, encode_request
from trimaran.wire.messages.registry import RESPONSES
from trimaran.wire.schema import Message

Address = tuple[str, int]
# A response that takes longer than this counts as missing. A run that passes never reaches this limit.
ANSWER_SECONDS_MAX = 60.0
# The timeout in requests to nodes: a disk may be slow.
TIMEOUT_MS = int(ANSWER_SECONDS_MAX * 1000)
CLOSED = "closed"


def sized(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + bytes(body)


def header(
    key: int, version: int, correlation_id: int = 7, client_id: bytes | None = b"x"
) -> bytes:
    """A request header v1; flexible versions need tags after it."""
    size = -1 if client_id is None else len(client_id)
    return struct.pack(">hhih", key, version, correlation_id, size) + (client_id or b"")


def frame_of(request: Message, version: int, correlation_id: int = 7) -> bytes:
    return sized(encode_request(request, version, correlation_id, "badinput"))


class Peer:
    """A connection."""

    def __init__(self, address: Address, *, receive_buffer: int | None = None) -> None:
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(ANSWER_SECONDS_MAX)
        try:
            self.socket.connect(address)
        except OSError:
            self.socket.close()
            raise
        self._buffer = bytearray()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def try_send(self, data: bytes) -> None:
        """Sends to a node that may close the connection before it has read all data."""
        with contextlib.suppress(ConnectionError):
            self.socket.sendall(data)

    def frame(self) -> bytes | None:
        """Returns the next response without its size; None if the node has closed the connection."""
        while len(self._buffer) < 4 or len(self._buffer) - 4 < self._size():
            try:
                data = self.socket.recv(1 << 20)
            except ConnectionError:
                data = b""
            if not data:
                assert not self._buffer, "closed within an answer"
                return None
            self._buffer += data
        end = 4 + self._size()
        found = bytes(self._buffer[4:end])
        del self._buffer[:end]
        return found

    def _size(self) -> int:
        return int.from_bytes(self._buffer[:4], "big", signed=True)

    def answer(self, key: int, version: int) -> Any:
        """Returns the next response, None if the connection is closed."""
        frame = self.frame()
        if frame is None:
            return None
        _, body = decode_response_header(frame, key, version)
        return RESPONSES[key].decode(frame[body:], version)

    def ask(self, request: Message, version: int) -> Any:
        self.try_send(frame_of(request, version))
        return self.answer(request.KEY, version)

    def end(self) -> None:
        """Shuts down the sending side."""
        self.socket.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        """Closes with RST instead of FIN."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def close(self) -> None:
        self.socket.close()


@contextlib.contextmanager
def connected(address: Address, **options: int) -> Iterator[Peer]:
    peer = Peer(address, **options)
    try:
        yield peer
    finally:
        peer.close()


def ask(address: Address, request: Message, version: int) -> Any:
    """Returns the response on a separate connection; None if the node closed it instead."""
    with connected(address) as peer:
        return peer.ask(request, version)


def is_closed_after(address: Address, data: bytes) -> bool:
    """Returns whether the node answers `data` only by closing the connection."""
    with connected(address) as peer:
        peer.try_send(data)
        return peer.frame() is None


def codes(response: Any) -> set[str]:
    """Returns the names of all error codes in a response; `{"NONE"}` if there is no other, `closed` for None."""
    if response is None:
        return {CLOSED}
    found = {ErrorCode.of(code).name for code in _codes(response)}
    return found - {"NONE"} or {"NONE"}


def _codes(value: Any) -> Iterator[int]:
    if isinstance(value, list):
        for item in value:
            yield from _codes(item)
    elif isinstance(value, Struct):
        for field in value.__fields__:
            if field.name in {"error_code", "partition_error_code"}:
                yield getattr(value, field.name)
            else:
                yield from _codes(getattr(value, field.name, None))
