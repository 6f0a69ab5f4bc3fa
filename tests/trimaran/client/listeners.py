"""Listeners at an address, each in a thread: a node with scripted responses, another protocol, silence, or no
listener.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from trimaran.node.runtime.ports import HOST
from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from trimaran.wire.messages.header import decode_request_header, encode_response
from trimaran.wire.messages.registry import REQUESTS

# In place of a response: the connection is closed, or no response is sent.
CLOSE, SILENCE = object(), object()
REQUEST_BYTES_MAX = 1 << 20
Address = tuple[str, int]


class Node:
    """A node that serves `ApiVersions` and scripted responses, and notes its requests and the ids of its clients."""

    def __init__(self, answers: dict[type, Any]) -> None:
        self.answers = answers
        self.asked: list[Any] = []
        self.client_ids: set[str | None] = set()

    def __call__(self, connection: socket.socket) -> None:
        while frame := _frame(connection):
            header, start = decode_request_header(frame)
            self.client_ids.add(header.client_id)
            request = REQUESTS[header.api_key].decode(frame[start:], header.api_version)
            answer = self._answer(request)
            if answer is CLOSE:
                return
            if answer is not SILENCE:
                body = bytes(encode_response(answer, header.api_version, header.correlation_id))
                connection.sendall(len(body).to_bytes(4, "big") + body)

    def _answer(self, request: Any) -> Any:
        if not isinstance(request, ApiVersionsRequest):
            self.asked.append(request)
            return self.answers[type(request)]
        served = [ApiVersionsRequest, *self.answers]
        keys = [
            ApiVersion(
                api_key=item.KEY, min_version=item.VERSIONS.low, max_version=item.VERSIONS.high
            )
            for item in served
        ]
        return ApiVersionsResponse(api_keys=keys)


def _frame(connection: socket.socket) -> bytes:
    size = int.from_bytes(_exactly(connection, 4), "big")
    return _exactly(connection, size) if size < REQUEST_BYTES_MAX else b""


def _exactly(connection: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size and (more := connection.recv(size - len(found))):
        found += more
    return found


def saying(answer: bytes, *, to: bytes = b"") -> Callable[[socket.socket], None]:
    """Reads once, and sends `answer` if the data begins with `to`."""

    def serve(connection: socket.socket) -> None:
        if connection.recv(4096).startswith(to):
            connection.sendall(answer)

    return serve


def over_tls(
    context: ssl.SSLContext, serve: Callable[[socket.socket], None]
) -> Callable[[socket.socket], None]:
    def wrapped(connection: socket.socket) -> None:
        with context.wrap_socket(
            connection, server_side=True, do_handshake_on_connect=False
        ) as secured:
            try:
                secured.do_handshake()
            except ssl.SSLError:
                # The alert is lost if a connection is closed before all received bytes were read.
                secured.shutdown(socket.SHUT_WR)
                while socket.socket.recv(secured, 4096):
                    pass
            else:
                serve(secured)

    return wrapped


@contextmanager
def listening(serve: Callable[[socket.socket], None] | None) -> Iterator[Address]:
    """Passes each connection to `serve`; None: connections are not accepted, so they stay silent."""
    with socket.create_server((HOST, 0)) as server:
        if serve is not None:
            threading.Thread(target=_accept, args=(server, serve), daemon=True).start()
        try:
            yield server.getsockname()
        finally:
            with contextlib.suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)  # wakes the accepting thread


def _accept(server: socket.socket, serve: Callable[[socket.socket], None]) -> None:
    while True:
        try:
            connection = server.accept()[0]
        except OSError:
            return
        threading.Thread(target=_serve, args=(connection, serve), daemon=True).start()


def _serve(connection: socket.socket, serve: Callable[[socket.socket], None]) -> None:
    with connection, contextlib.suppress(OSError, RemoteProtocolError):
        serve(connection)


@contextmanager
def nobody() -> Iterator[Address]:
    """Returns an address that is in use, but has no listener."""
    with socket.socket() as bound:
        bound.bind((HOST, 0))
        yield bound.getsockname()
