"""Finds out whether a process still exists, by connecting to where it listened.

A refused connection is news from the kernel that nobody listens there; silence is news of nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

import trio

from wire.client.errors import ConnectionLost, ConnectRefused
from wire.endpoint import Endpoint
from wire.transport.node_connection import connect

CONNECT_SECONDS = 1.0
# A dying process closes its sockets one after another: a listener may be open a moment longer than the connection that
# broke.
PAUSES_SECONDS = (0.0, 0.01, 0.05)


async def broker_is_down(endpoints: Iterable[Endpoint]) -> bool:
    """True if every endpoint refuses; False if any answers, cannot be reached, or there is none."""
    listed = list(endpoints)
    if not listed:
        return False
    for pause in PAUSES_SECONDS:
        await trio.sleep(pause)
        if all([await _refuses(endpoint) for endpoint in listed]):
            return True
    return False


async def _refuses(endpoint: Endpoint) -> bool:
    try:
        found = await connect(endpoint.host, endpoint.port, timeout=CONNECT_SECONDS)
    except ConnectRefused:
        return True
    except ConnectionLost:
        return False
    found.close()
    return False
