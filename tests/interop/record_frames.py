"""A TCP proxy that records the frames between a real client and a real broker, for tests/wire/testdata/captured.

    python -m tests.interop.record_frames --listen 29501 --upstream 127.0.0.1:29001 --client java --version 1.1.1 \\
        --broker "Apache Kafka 3.9.1" FILE

The broker must advertise the proxy's address. On SIGTERM or SIGINT it writes a few frames of each API, version and
direction, as lines for `trimaran wire decode`, with `client`, `client_version` and `broker`.
"""

import argparse
import base64
import contextlib
import json
import signal
import socket
import struct
import threading
from collections import defaultdict
from pathlib import Path

FRAME_BYTES_MAX = 2500  # the maximum size of recorded frames; tests need only the fields


class Recorder:
    """The frames seen so far."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: dict[tuple[int, int, str], set[bytes]] = defaultdict(set)

    def add(self, key: int, version: int, direction: str, frame: bytes) -> None:
        with self._lock:
            self._seen[key, version, direction].add(frame)

    def lines(self, **origin: str) -> list[str]:
        """Returns the shortest and the longest frame of each kind, sorted."""
        made = []
        for (key, version, direction), frames in sorted(self._seen.items()):
            fitting = sorted(
                (f for f in frames if len(f) <= FRAME_BYTES_MAX), key=lambda f: (len(f), f)
            )
            for frame in dict.fromkeys(fitting[:1] + fitting[-1:]):
                text = base64.b64encode(frame).decode()
                kind = {"api_key": key, "api_version": version, "direction": direction}
                made.append(json.dumps({**origin, **kind, "frame": text}))
        return made


def receive(sock: socket.socket) -> bytes | None:
    """Returns the next frame without its length; None at the end of the stream."""
    head = receive_exactly(sock, 4)
    return None if head is None else receive_exactly(sock, struct.unpack(">i", head)[0])


def receive_exactly(sock: socket.socket, size: int) -> bytes | None:
    data = b""
    while len(data) < size:
        piece = sock.recv(size - len(data))
        if not piece:
            return None
        data += piece
    return data


class Connection:
    """One client's connection, with a thread for each direction; responses are matched by correlation id."""

    def __init__(
        self, client: socket.socket, upstream: tuple[str, int], recorder: Recorder
    ) -> None:
        self.client = client
        self.server = socket.create_connection(upstream)
        self.recorder = recorder
        self.asked: dict[int, tuple[int, int]] = {}
        for target in (self.requests, self.responses):
            threading.Thread(target=target, daemon=True).start()

    def requests(self) -> None:
        with contextlib.suppress(OSError):
            while (frame := receive(self.client)) is not None:
                key, version, correlation_id = struct.unpack_from(">hhi", frame)
                self.asked[correlation_id] = key, version
                self.recorder.add(key, version, "request", frame)
                self.server.sendall(struct.pack(">i", len(frame)) + frame)
        self.close()

    def responses(self) -> None:
        with contextlib.suppress(OSError):
            while (frame := receive(self.server)) is not None:
                key, version = self.asked.pop(struct.unpack_from(">i", frame)[0])
                self.recorder.add(key, version, "response", frame)
                self.client.sendall(struct.pack(">i", len(frame)) + frame)
        self.close()

    def close(self) -> None:
        for sock in (self.client, self.server):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.interop.record_frames", description=__doc__
    )
    parser.add_argument("--listen", type=int, required=True)
    parser.add_argument("--upstream", required=True, help="HOST:PORT of the broker")
    for name in ("client", "version", "broker"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("file", type=Path)
    chosen = parser.parse_args()
    host, _, port = chosen.upstream.rpartition(":")
    recorder = Recorder()
    listener = socket.create_server(("127.0.0.1", chosen.listen))

    def accept() -> None:
        while True:
            Connection(listener.accept()[0], (host, int(port)), recorder)

    threading.Thread(target=accept, daemon=True).start()
    signal.sigwait({signal.SIGINT, signal.SIGTERM})
    lines = recorder.lines(
        client=chosen.client, client_version=chosen.version, broker=chosen.broker
    )
    chosen.file.write_text("".join(line + "\n" for line in lines))


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    main()
