"""Requests in flight: at most one per peer, each with a deadline, and a backoff after a failure.

Source: Kafka's `RequestManager`, with a backoff that doubles. A change of role forgets all requests, and responses to
forgotten requests are dropped; therefore a response is only handled in the role that sent the request.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from trimaran.quorum.raft.types import Peer, Timeouts
from trimaran.wire.client.backoff import exponential_seconds
from trimaran.wire.identity import Offset

# The maximum number of peers with a state, far above any quorum with its bootstrap servers. Only nodes that want to
# become voters add connections, under any id; at this number, idle connections are forgotten.
CONNECTIONS_MAX = 64


@dataclass(slots=True)
class _ConnectionState:
    """The state of requests to one peer."""

    token: int | None = None
    overdue: float = inf
    expires: float = inf
    resume: float = -inf
    failures: int = 0

    def is_busy(self, now: float) -> bool:
        return self.token is not None or now < self.resume


class Sent(NamedTuple):
    """A request in flight: its peer, and the end of our log when it was sent."""

    peer: Peer
    log_end: Offset


class RequestManager:
    """The requests in flight, keyed by peer id; tokens are never reused."""

    __slots__ = ("_by_token", "_connections", "_next_expiry", "_next_token", "_timeouts")

    def __init__(self, timeouts: Timeouts, first_token: int = 1) -> None:
        self._timeouts = timeouts
        self._connections: dict[int, _ConnectionState] = {}
        self._by_token: dict[int, Sent] = {}
        self._next_token = first_token
        # a lower bound of the expiry of all requests
        self._next_expiry = inf

    def reset(self) -> None:
        """Forgets requests in flight and backoffs."""
        self._connections.clear()
        self._by_token.clear()

    def is_ready(self, peer: Peer, now: float) -> bool:
        connection = self._connections.get(peer.id)
        return connection is None or not connection.is_busy(now)

    def is_backing_off(self, peer: Peer, now: float) -> bool:
        connection = self._connections.get(peer.id)
        return connection is not None and connection.token is None and now < connection.resume

    def is_waiting(self, now: float) -> bool:
        """Returns whether there is an awaited response that is not overdue."""
        for connection in self._connections.values() if self._by_token else ():
            if connection.token is not None and now < connection.overdue:
                return True
        return False

    def is_in_flight(self, peer: Peer) -> bool:
        connection = self._connections.get(peer.id)
        return connection is not None and connection.token is not None

    def sent(self, peer: Peer, log_end: Offset, patience: float, now: float) -> int:
        """Registers a request and returns its token. Its response is overdue after `patience`, or immediately if the
        last request to the peer failed.
        """
        token = self._next_token
        self._next_token += 1
        connection = self._connection_to(peer, now)
        connection.token, connection.expires = token, now + self._timeouts.request
        connection.overdue = now if connection.failures else now + patience
        self._next_expiry = min(self._next_expiry, connection.expires)
        self._by_token[token] = Sent(peer, log_end)
        return token

    def answered(self, token: int) -> Sent | None:
        """Returns the request of a token and frees its peer; None if the response is no longer awaited."""
        sent = self._by_token.pop(token, None)
        if sent is not None:
            connection = self._connections[sent.peer.id]
            connection.token, connection.overdue, connection.expires = None, inf, inf
        return sent

    def succeeded(self, peer: Peer) -> None:
        connection = self._connections.get(peer.id)
        if connection is not None:
            connection.failures, connection.resume = 0, -inf

    def back_off(self, peer: Peer, now: float) -> None:
        connection = self._connection_to(peer, now)
        first = self._timeouts.retry_backoff
        most = max(first, self._timeouts.retry_backoff_max)
        connection.resume = now + exponential_seconds(first, most, connection.failures)
        connection.failures += 1

    def _connection_to(self, peer: Peer, now: float) -> _ConnectionState:
        connection = self._connections.get(peer.id)
        if connection is None:
            if len(self._connections) >= CONNECTIONS_MAX:
                self._connections = {
                    id_: connection
                    for id_, connection in self._connections.items()
                    if connection.is_busy(now)
                }
            connection = self._connections[peer.id] = _ConnectionState()
        return connection

    def expire(self, now: float) -> None:
        """Gives up expired requests; their peers back off."""
        if now < self._next_expiry:
            return
        for connection in [
            connection for connection in self._connections.values() if connection.expires <= now
        ]:
            sent = None if connection.token is None else self.answered(connection.token)
            if sent is not None:
                self.back_off(sent.peer, now)
        self._next_expiry = min(
            (connection.expires for connection in self._connections.values()), default=inf
        )

    def deadline(self, now: float) -> float:
        """Returns when a request becomes overdue or expires, or a peer's backoff ends."""
        earliest = inf
        for connection in self._connections.values():
            if connection.token is not None:
                when = connection.overdue if connection.overdue > now else connection.expires
            else:
                when = connection.resume if connection.resume > now else inf
            if when < earliest:
                earliest = when
        return earliest
