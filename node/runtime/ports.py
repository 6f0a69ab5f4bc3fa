"""Ports that are kept for a server that has not begun to listen, or has ended and will begin again."""

from __future__ import annotations

import socket

HOST = "127.0.0.1"


def reserve(port: int = 0, host: str = HOST) -> socket.socket:
    """Returns a socket that holds the port (0: a free one) until it is closed: the kernel gives it to no other
    socket, and connections are refused.

    Our servers, those of Java, and all others that set SO_REUSEADDR may listen on it meanwhile (Linux).

    Raises:
        OSError: the port is taken.
    """
    sock = socket.socket()
    try:
        sock.bind((host, port))
        # Set before, it would let two of us hold the same port.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    except BaseException:
        sock.close()
        raise
    return sock


def port_of(sock: socket.socket) -> int:
    port: int = sock.getsockname()[1]
    return port
