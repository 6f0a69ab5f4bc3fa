"""A proxy ("door") in front of each broker for clients and other brokers; it can be shut for clients or brokers, in
each direction. Data at a shut door waits until the door opens, as TCP retransmits it. A request or response may
therefore arrive long after its sender has given up.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import Self

PEERS, CLIENTS = "peers", "clients"
REQUESTS, ANSWERS = "requests", "answers"
# The names of librdkafka and of share consumers begin like this; any other client is a broker.
CLIENT_NAMES = (b"rdkafka", b"share-member")
CONNECT_SECONDS_MAX = 5.0
# Size of a request's length, API key, version, correlation id, and length of the client id.
_HEAD_BYTES = 14


class Door:
    """A proxy with its own port, which forwards everything to `target` while it is open."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._gates = {
            (s, w): threading.Event() for s in (PEERS, CLIENTS) for w in (REQUESTS, ANSWERS)
        }
        self.open()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.open()
        self._listener.close()

    def open(self) -> None:
        """Opens the door for both sides, in both directions."""
        for gate in self._gates.values():
            gate.set()

    def shut(self, sides: tuple[str, ...], ways: tuple[str, ...]) -> None:
        """Blocks these sides in these directions."""
        for side in sides:
            for way in ways:
                self._gates[side, way].clear()

    def _accept(self) -> None:
        while True:
            try:
                guest, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._welcome, args=(guest,), daemon=True).start()

    def _welcome(self, guest: socket.socket) -> None:
        """Reads the client's name from its first request, and forwards the connection."""
        try:
            head = _received(guest, _HEAD_BYTES)
            head += _received(guest, max(0, int.from_bytes(head[-2:], "big", signed=True)))
            side = CLIENTS if head[_HEAD_BYTES:].startswith(CLIENT_NAMES) else PEERS
            self._gates[side, REQUESTS].wait()
            host = socket.create_connection(self._target, CONNECT_SECONDS_MAX)
            host.settimeout(None)
            host.sendall(head)
        except OSError:
            guest.close()
            return
        pairs = ((guest, host, REQUESTS), (host, guest, ANSWERS))
        for source, sink, way in pairs:
            arguments = (source, sink, self._gates[side, way])
            threading.Thread(target=_pass_on, args=arguments, daemon=True).start()


def _pass_on(source: socket.socket, sink: socket.socket, gate: threading.Event) -> None:
    with suppress(OSError):
        while piece := source.recv(65536):
            gate.wait()
            sink.sendall(piece)
    gate.wait()  # the end of a connection waits, too
    for end in (source, sink):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()


def _received(source: socket.socket, size: int) -> bytes:
    """Receives exactly `size` bytes. Raises OSError if there are fewer."""
    found = b""
    while len(found) < size:
        piece = source.recv(size - len(found))
        if not piece:
            raise OSError("it left before it said who it is")
        found += piece
    return found
