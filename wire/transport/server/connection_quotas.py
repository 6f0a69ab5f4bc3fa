"""Limits of a server's connections, in total, by listener and by address, and of the rate of new connections.

The bounds may change while connections are open. Does no I/O. Source: `ConnectionQuotas` of Kafka, KIP-402, KIP-612.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from trimaran.wire.transport.metrics.rate import Rate, Windows
from trimaran.wire.transport.scheduling.events import Notifier

UNBOUNDED = 1 << 31


@dataclass(slots=True, frozen=True)
class ConnectionBounds:
    """Kafka's keys about connections.

    Args:
        connections_max: `max.connections`, for all listeners together. Above it only other nodes are accepted.
        of_listeners: `listener.name.NAME.max.connections`, by name; above it the listener accepts no connection.
        per_ip_max: `max.connections.per.ip`; above it a connection is closed as soon as it is accepted.
        per_ip: `max.connections.per.ip.overrides`, by address.
        rate: `max.connection.creation.rate`, in connections per second; further ones wait.
        rates_of_listeners: `listener.name.NAME.max.connection.creation.rate`, by name.
    """

    connections_max: int = UNBOUNDED
    of_listeners: Mapping[str, int] = field(default_factory=dict)
    per_ip_max: int = UNBOUNDED
    per_ip: Mapping[str, int] = field(default_factory=dict)
    rate: float = math.inf
    rates_of_listeners: Mapping[str, float] = field(default_factory=dict)


class ConnectionQuotas:
    """Counts connections of all listeners of a server.

    A `protected` listener is the listener for other nodes, separate from those of clients: only its own bounds apply to
    it, regardless of the number and rate of client connections.

    Args:
        too_early: counts a new connection of an address, and returns the number of seconds by which it is too early. An
        early connection is not served, but closed after that time, which slows down a client that reconnects
        immediately (KIP-612).
    """

    def __init__(
        self,
        bounds: ConnectionBounds | None = None,
        windows: Windows | None = None,
        too_early: Callable[[str], float] | None = None,
    ) -> None:
        self.bounds = bounds or ConnectionBounds()
        self.freed = Notifier()  # True if one more connection may be accepted
        self.total = 0
        self._windows = windows or Windows()
        self._too_early = too_early
        self._of_listeners: Counter[str] = Counter()
        self._of_addresses: Counter[str] = Counter()
        self._rate = Rate(self._windows)
        self._rates: dict[str, Rate] = {}  # one per listener

    def change(self, bounds: ConnectionBounds) -> None:
        """Replaces the bounds; waiting connections check again, and the server closes those in excess of the new
        bounds.
        """
        self.bounds = bounds
        self.freed.notify_all()

    @property
    def excess(self) -> int:
        """Returns the number of client connections to close: as in Kafka, nodes displace clients."""
        return max(0, self.total - self.bounds.connections_max)

    def is_full(self, listener: str, *, protected: bool) -> bool:
        """Whether the listener must wait until a connection closes."""
        bounds = self.bounds
        if self._of_listeners[listener] >= bounds.of_listeners.get(listener, UNBOUNDED):
            return True
        return not protected and self.total >= bounds.connections_max

    def of_listener(self, listener: str) -> int:
        """Returns the number of connections of a listener."""
        return self._of_listeners[listener]

    def of_address(self, ip: str) -> int:
        """Returns the number of connections of an address."""
        return self._of_addresses[ip]

    def is_too_many_of(self, ip: str) -> bool:
        """Whether an address has reached its number of connections."""
        bounds = self.bounds
        return self._of_addresses[ip] >= bounds.per_ip.get(ip, bounds.per_ip_max)

    def came(self, listener: str, now: float, *, protected: bool) -> float:
        """Counts a new connection; returns the seconds for which it must wait, at most one window."""
        bounds = self.bounds
        delay = self._measured(
            self._rate_of(listener), bounds.rates_of_listeners.get(listener), now
        )
        if not protected:
            delay = max(delay, self._measured(self._rate, bounds.rate, now))
        return delay

    def too_early(self, listener: str, ip: str, now: float, *, protected: bool) -> float:
        """Returns the number of seconds by which a connection of an address is too early; such a connection does not
        count for the listener.
        """
        early = 0.0 if self._too_early is None else self._too_early(ip)
        if early > 0:
            self._rate_of(listener).record(-1, now)
            if not protected:
                self._rate.record(-1, now)
        return early

    def _rate_of(self, listener: str) -> Rate:
        rate = self._rates.get(listener)
        if rate is None:
            rate = self._rates[listener] = Rate(self._windows)
        return rate

    def _measured(self, rate: Rate, limit: float | None, now: float) -> float:
        rate.record(1, now)
        if limit is None or limit == math.inf:
            return 0.0
        return min(rate.delay(max(limit, 1e-3), now), self._windows.seconds)

    def opened(self, listener: str, ip: str) -> None:
        """Counts a connection that is served from now on."""
        self._of_listeners[listener] += 1
        self._of_addresses[ip] += 1
        self.total += 1

    def closed(self, listener: str, ip: str) -> None:
        """Notes that a connection counted by `opened` has closed."""
        self._of_listeners[listener] -= 1
        self._of_addresses[ip] -= 1
        if not self._of_addresses[ip]:
            del self._of_addresses[ip]
        self.total -= 1
        self.freed.notify_all()
