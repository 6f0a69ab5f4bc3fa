"""The interface between sockets and connections at which a test injects faults.

A server uses the interceptor of the context (`contextvars`) in which it starts, so two nodes in one process may have
different ones. Without one, which is the case outside of tests, connections get the endpoints of their sockets.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Protocol

import trio

from trimaran.wire.transport.endpoint.endpoint import TransportLayer
from trimaran.wire.transport.requests.calls import ConnectionInfo


class Interceptor(Protocol):
    """Replaces the endpoint of each accepted connection."""

    def intercept(
        self,
        endpoint: TransportLayer,
        info: ConnectionInfo,
        owes: Callable[[], bool],
        nursery: trio.Nursery,
    ) -> TransportLayer:
        """Returns the endpoint for the connection.

        Args:
            owes: whether responses of the connection are outstanding. nursery: that of the server, for tasks.
        """


INTERCEPTOR: ContextVar[Interceptor | None] = ContextVar("INTERCEPTOR", default=None)
