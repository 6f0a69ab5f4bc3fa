"""A proxy between the mirror and ZooKeeper that cuts or forges responses on request."""

from __future__ import annotations

import random
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Self

# Returns the frames that replace a frame of the server; None cuts the connection.
Harm = Callable[[bytes], list[bytes] | None]
CUT_SHARE, LIE_SHARE = 0.1, 0.2
_HEADER = struct.Struct("!iqi")  # the header of a response: xid, zxid, error


class LyingProxy:
    """A proxy with its own port, which only forwards until `harm` is set."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.harm: Harm | None = None
        self._open: list[socket.socket] = []

    @property
    def connect(self) -> str:
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        self.cut()

    def cut(self) -> None:
        """Closes the current connections."""
        cut, self._open = self._open, []
        for item in cut:
            _shut(item)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self._target, 5.0)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            self._open += [client, server]
            threading.Thread(target=self._ask, args=(client, server), daemon=True).start()

    def _ask(self, client: socket.socket, server: socket.socket) -> None:
        first = client.recv(4)
        _send(server, first)
        # Four-letter words have no frames.
        answers = self._pass if first == b"srvr" else self._answer
        threading.Thread(target=answers, args=(server, client), daemon=True).start()
        self._pass(client, server)

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while piece := source.recv(65536):
                target.sendall(piece)
        except OSError:
            pass
        _shut(source)
        _shut(target)

    def _answer(self, server: socket.socket, client: socket.socket) -> None:
        try:
            with server.makefile("rb") as stream:
                while len(length := stream.read(4)) == 4:
                    frame = stream.read(int.from_bytes(length, "big"))
                    harm = self.harm
                    frames = [frame] if harm is None else harm(frame)
                    if frames is None:
                        client.sendall(length + frame[: len(frame) // 2])
                        break
                    for piece in frames:
                        client.sendall(len(piece).to_bytes(4, "big") + piece)
        except OSError:
            pass
        _shut(client)
        _shut(server)


def cutting(prng: random.Random) -> Harm:
    """Cuts one response in ten in the middle, and closes the connection."""
    return lambda frame: None if prng.random() < CUT_SHARE else [frame]


def forging(prng: random.Random) -> Harm:
    """Alters one response in five; lengths of frames stay correct."""
    lies = (_flip, _shorten, _rename, _refuse, _from_the_future, _repeat, _invent, _count)

    def lie(frame: bytes) -> list[bytes]:
        if prng.random() >= LIE_SHARE or len(frame) < _HEADER.size:
            return [frame]
        return prng.choice(lies)(frame, prng)

    return lie


def _flip(frame: bytes, prng: random.Random) -> list[bytes]:
    at = prng.randrange(len(frame))
    return [frame[:at] + bytes([frame[at] ^ prng.randrange(1, 256)]) + frame[at + 1 :]]


def _shorten(frame: bytes, prng: random.Random) -> list[bytes]:
    return [frame[: prng.randrange(len(frame))]]


def _rename(frame: bytes, prng: random.Random) -> list[bytes]:
    xid, zxid, error = _HEADER.unpack_from(frame)
    return [_HEADER.pack(xid + prng.choice((-1, 1, 1000)), zxid, error) + frame[_HEADER.size :]]


def _refuse(frame: bytes, prng: random.Random) -> list[bytes]:
    xid, zxid, _ = _HEADER.unpack_from(frame)
    error = prng.choice((-1, -4, -101, -102, -103, -110, -112, -115, -118, 77))
    return [_HEADER.pack(xid, zxid, error)]


def _from_the_future(frame: bytes, prng: random.Random) -> list[bytes]:
    xid, zxid, error = _HEADER.unpack_from(frame)
    return [_HEADER.pack(xid, zxid + prng.randrange(1, 1 << 40), error) + frame[_HEADER.size :]]


def _repeat(frame: bytes, prng: random.Random) -> list[bytes]:
    return [frame] * prng.randrange(2, 4)


def _invent(frame: bytes, prng: random.Random) -> list[bytes]:
    path = prng.choice(
        (b"/brokers/topics/bad", b"/controller", b"/admin/delete_topics/bad", b"\xff")
    )
    event = struct.pack("!iqiiii", -1, -1, 0, prng.choice((1, 2, 3, 4, 9)), 3, len(path)) + path
    return [event, frame]


def _count(frame: bytes, prng: random.Random) -> list[bytes]:
    """Replaces a number that may be a length by a very large or negative one."""
    at = prng.randrange(_HEADER.size, max(_HEADER.size + 1, len(frame) - 3))
    number = prng.choice((0x7FFFFFFF, 0x10000000, -2))
    return [frame[:at] + struct.pack("!i", number) + frame[at + 4 :]]


def _send(target: socket.socket, piece: bytes) -> None:
    try:
        target.sendall(piece)
    except OSError:
        _shut(target)


def _shut(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
