"""Notifications of a node to the manager that started it, such as systemd with `Type=notify`. Source:
sd_notify(3).
"""

from __future__ import annotations

import contextlib
import os
import socket

VARIABLE = "NOTIFY_SOCKET"
READY, STOPPING = "READY=1", "STOPPING=1"


def notify(state: str) -> bool:
    """Sends the state to the socket that `NOTIFY_SOCKET` names; returns false if there is none, or no reader."""
    path = os.environ.get(VARIABLE, "")
    if not path.startswith(("/", "@")):
        return False
    address = f"\0{path[1:]}" if path.startswith("@") else path  # of Linux's abstract names
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.setblocking(False)  # a manager that does not read must not hold a node
        sock.sendto(state.encode(), address)
        return True
    return False
