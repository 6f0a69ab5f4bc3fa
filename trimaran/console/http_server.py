"""An HTTP server on trio for an ASGI application, with limits."""

from __future__ import annotations

import logging
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import trio
from hypercorn.config import Config
from hypercorn.trio import serve

from trimaran.console.guards import App

# The limit for an idle connection; a browser reopens its stream of events.
_SILENT_READER_SECONDS = 60
_HEAD_BYTES_MAX = 16 << 10


@dataclass(frozen=True, slots=True)
class Tls:
    """PEM files: the certificate with its chain, and its key, which may be in the same file."""

    certificate: Path
    key: Path


async def serve_http(
    app: App,
    listener: socket.socket,
    on_ready: Callable[[], object],
    wait_for_stop: Callable[[], Awaitable[None]],
    tls: Tls | None = None,
) -> None:
    """Serves on a listening socket until `wait_for_stop` returns."""
    config = Config()
    if tls is not None:
        config.certfile, config.keyfile = str(tls.certificate), str(tls.key)
    config.alpn_protocols = ["http/1.1"]  # the same limit as without TLS
    config.bind = [f"fd://{listener.detach()}"]  # the server closes the socket
    config.errorlog = logging.getLogger("hypercorn")
    config.include_server_header = False
    config.read_timeout = _SILENT_READER_SECONDS
    config.graceful_timeout = 1.0
    config.h11_max_incomplete_size = _HEAD_BYTES_MAX
    async with trio.open_nursery() as nursery:
        await nursery.start(
            partial(serve, app, config, shutdown_trigger=wait_for_stop, mode="asgi")  # type: ignore[arg-type]
        )
        on_ready()


def run(
    app: App,
    listener: socket.socket,
    on_ready: Callable[[], object],
    wait_for_stop: Callable[[], Awaitable[None]],
    tls: Tls | None = None,
) -> None:
    """Serves until `wait_for_stop` returns, in an event loop of its own."""
    trio.run(serve_http, app, listener, on_ready, wait_for_stop, tls)
