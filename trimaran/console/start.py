"""The console as a process: its listening socket, and serving until a signal."""

from __future__ import annotations

import signal
import socket
import ssl
from collections.abc import Callable, Collection
from pathlib import Path

import trio

from trimaran.console.cluster import ConsoleCluster
from trimaran.console.http_server import Tls, run
from trimaran.console.login import ConsoleLogin
from trimaran.console.serving import application
from trimaran.errors.user_error import Exit, UserError
from trimaran.wire.identity import Address


def listen_on(address: Address) -> socket.socket:
    """Opens the socket. Raises OSError, with the address, if the port is taken or the address is not that of this
    machine.
    """
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    listener = socket.socket(family)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen()
    except OSError as error:
        listener.close()
        raise OSError(error.errno, error.strerror, str(Address(*address[:2]))) from error
    return listener


def serve_console(
    cluster: ConsoleCluster,
    listener: socket.socket,
    names: Collection[str],
    on_ready: Callable[[], object],
    *,
    allow_writes: bool = False,
    login: ConsoleLogin | None = None,
    tls: Tls | None = None,
) -> None:
    """Serves until SIGTERM or Ctrl-C; `names` are the accepted host names."""

    async def wait_for_signal() -> None:
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
            async for _ in signals:
                return

    app = application(cluster, names, allow_writes=allow_writes, login=login)
    run(app, listener, on_ready, wait_for_signal, tls)


def checked_tls(certificate: Path, key: Path | None) -> Tls:
    """Returns the settings of TLS. Raises UserError if the files are invalid, or do not match."""
    found = Tls(certificate, key or certificate)
    try:
        # Without this, OpenSSL would ask for a password at the terminal.
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(
            found.certificate, found.key, password=""
        )
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise UserError(
            f"cannot serve TLS with {found.certificate}",
            f"{found.key}: {getattr(error, 'strerror', None) or error}",
            "--tls-cert FILE and --tls-key FILE are PEM, the key without a password, and belong together",
            exit_code=Exit.USAGE,
        ) from error
    return found
