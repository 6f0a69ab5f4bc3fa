"""The console as a process: what it listens on, and serving until a signal."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Collection
from typing import Any

import trio

from trimaran.console.cluster import Cluster
from trimaran.console.serving import application, run


def listen_on(address: tuple[str, int]) -> socket.socket:
    """Raises OSError with the address in it: somebody else listens there, or it is not ours."""
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    listener = socket.socket(family)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen()
    except OSError as error:
        listener.close()
        raise OSError(error.errno, error.strerror, text_of(address)) from error
    return listener


def text_of(address: tuple[Any, ...]) -> str:
    """`127.0.0.1:8090`; of IPv6 with brackets."""
    host, port = address[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def serve_console(
    cluster: Cluster,
    listener: socket.socket,
    names: Collection[str],
    on_ready: Callable[[], object],
    *,
    allow_writes: bool = False,
) -> None:
    """Until SIGTERM or Ctrl-C; `names` are hosts that browsers call it by."""

    async def wait_for_signal() -> None:
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
            async for _ in signals:
                return

    run(application(cluster, names, allow_writes=allow_writes), listener, on_ready, wait_for_signal)
