"""The interface between sockets and connections at which a test injects faults.

A server uses the function of the context (`contextvars`) in which it starts, so two nodes in one process may have
different ones. Without one, which is the case outside of tests, connections get the endpoints of their sockets.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import TypeAlias

import trio

from trimaran.wire.transport.endpoint.endpoint import TransportLayer
from trimaran.wire.transport.requests.calls import ConnectionInfo

# Returns the endpoint for an accepted connection. Its arguments: the endpoint of the socket, the connection, whether
# responses are outstanding, and the nursery of the server, for tasks.
Intercept: TypeAlias = Callable[
    [TransportLayer, ConnectionInfo, Callable[[], bool], trio.Nursery], TransportLayer
]

INTERCEPT: ContextVar[Intercept | None] = ContextVar("INTERCEPT", default=None)
