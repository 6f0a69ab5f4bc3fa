"""Requests of a connection keep their order: what it sends behind a request that waits, or is in a thread, goes the
same way.
"""

from __future__ import annotations

from functools import partial

from trimaran.wire.transport.requests.calls import ConnectionInfo


class OffloadedConnections:
    """The connections that have requests which were not served in one turn of the loop."""

    def __init__(self) -> None:
        self._requests: dict[int, int] = {}
        self._on_close: dict[int, partial[None]] = {}

    def __contains__(self, connection: ConnectionInfo) -> bool:
        return connection.id in self._requests

    def begin(self, connection: ConnectionInfo) -> None:
        if connection.id not in self._requests:
            self._on_close[connection.id] = partial(self._forget, connection)
            connection.on_close(self._on_close[connection.id])
        self._requests[connection.id] = self._requests.get(connection.id, 0) + 1

    def end(self, connection: ConnectionInfo) -> None:
        left = self._requests.get(connection.id, 1) - 1
        if left:
            self._requests[connection.id] = left
        else:
            self._forget(connection)

    def _forget(self, connection: ConnectionInfo) -> None:
        """Also of a connection that closed: its requests may never come to their turn."""
        self._requests.pop(connection.id, None)
        if callback := self._on_close.pop(connection.id, None):
            connection.forget_on_close(callback)
