"""`python -m bench.idle_connections [COUNT] [plaintext|tls|login|tls-login]`: the cost of idle connections.

The server is a separate process with the registry of a broker; each connection has sent ApiVersions once. With `login`
it requires a login, and each connection has sent all except the last byte of the largest frame before it. Marks: 1,000
idle connections take at most 20 MB; before the login at most 64 KiB each.
"""

from __future__ import annotations

import os
import socket
import ssl
import sys
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import trio

from bench.sizes import sized
from tests.certificates import Certificates
from trimaran.broker.handlers.registry import broker_registry
from trimaran.wire.messages.api_versions import ApiVersionsRequest
from trimaran.wire.messages.header import encode_request
from trimaran.wire.security.listener import ListenerSecurity
from trimaran.wire.security.sasl.authenticator import SaslSettings
from trimaran.wire.security.sasl.plain import PlainExchange
from trimaran.wire.transport.connection.limits import (
    FRAME_BYTES_BEFORE_LOGIN_MAX,
    ConnectionLimits,
)
from trimaran.wire.transport.dispatch.api_versions import Features
from trimaran.wire.transport.dispatch.registry import Registry
from trimaran.wire.transport.server.server import Listener, serve_listener

WARM_UP = 10


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else sized(1_000, 20)
    kind = sys.argv[2] if len(sys.argv) > 2 else "plaintext"
    certificates = Certificates()
    tls = certificates.server_settings() if "tls" in kind else None
    ours, theirs = get_context("spawn").Pipe()
    server = get_context("spawn").Process(target=serve, args=(theirs, kind, tls), daemon=True)
    server.start()
    address = ours.recv()
    context = certificates.client_context() if tls else None
    more = (FRAME_BYTES_BEFORE_LOGIN_MAX).to_bytes(4, "big") if "login" in kind else b""
    more += bytes(FRAME_BYTES_BEFORE_LOGIN_MAX - 1) if "login" in kind else b""
    held = [connect(address, context, more) for _ in range(WARM_UP)]
    base = rss_bytes(server.pid)
    held += [connect(address, context, more) for _ in range(count)]
    above = rss_bytes(server.pid) - base
    print(f"{kind}: base {base / 1e6:.1f} MB, {count} idle connections {above / 1e6:.1f} MB above, "
          f"{above / count / 1024:.1f} KiB each")  # fmt: skip
    server.terminate()
    server.join()


def connect(address, context: ssl.SSLContext | None, more: bytes) -> socket.socket:
    sock = socket.create_connection(address)
    if context is not None:
        sock = context.wrap_socket(sock, server_hostname="localhost")
    request = ApiVersionsRequest(client_software_name="bench", client_software_version="1")
    frame = encode_request(request, 3, 0, "idle")
    sock.sendall(len(frame).to_bytes(4, "big") + frame)
    assert sock.recv(65536)
    sock.sendall(more)
    return sock


def serve(pipe, kind: str, tls) -> None:
    from trimaran.wire.security.tls.contexts import server_context

    sasl = SaslSettings({"PLAIN": partial(PlainExchange, {})}) if "login" in kind else None
    security = ListenerSecurity(tls=server_context(tls) if tls else None, sasl=sasl)
    registry: Registry = broker_registry()
    registry._features = lambda _context: Features()

    async def run() -> None:
        listener = Listener.bind("A", "127.0.0.1", 0, security=security)
        async with trio.open_nursery() as nursery:
            # No connection ends before it is counted.
            limits = ConnectionLimits(handshake_seconds=60.0)
            await nursery.start(partial(serve_listener, [listener], registry, None, limits=limits))
            pipe.send(listener.address)
            await trio.sleep_forever()

    trio.run(run)


def rss_bytes(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    main()
