"""Ports reserved for a server that has not started to listen, or has ended and will start again."""

from __future__ import annotations

import socket

HOST = "127.0.0.1"


def reserve(port: int = 0, host: str = HOST) -> socket.socket:
    """Returns a socket that reserves the port (0: any free port) until it is closed: the kernel gives the port to no
    other socket, and refuses connections.

    Our servers, Java servers, and all other servers that set SO_REUSEADDR can still listen on it (Linux).

    Raises:
        OSError: the port is in use.
    """
    sock = socket.socket()
    try:
        sock.bind((host, port))
        # Set earlier, it would allow two reservations of the same port.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    except BaseException:
        sock.close()
        raise
    return sock


def port_of(sock: socket.socket) -> int:
    port: int = sock.getsockname()[1]
    return port
