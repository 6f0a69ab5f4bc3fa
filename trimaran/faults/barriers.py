"""Requests and responses that wait until they are released; any thread may release them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class HeldFrames:
    """The tickets of frames that wait, each with the rule that holds it; guarded by the lock of the rules."""

    _tickets: dict[int, str] = field(default_factory=dict)
    _callbacks: dict[int, Callable[[], object]] = field(default_factory=dict)
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def hold(self, rule: str) -> int:
        """Returns a ticket that a rule has not released yet."""
        ticket = next(self._numbers)
        self._tickets[ticket] = rule
        return ticket

    def waiting(self, rule: str) -> int:
        """Returns the number of frames that a rule holds."""
        return list(self._tickets.values()).count(rule)

    def when_released(self, ticket: int, callback: Callable[[], object]) -> bool:
        """Registers a callback, called by the releasing thread; returns False, without registering, if the ticket is
        released already.
        """
        if ticket not in self._tickets:
            return False
        self._callbacks[ticket] = callback
        return True

    def forget(self, ticket: int) -> None:
        """Drops a ticket of a connection that has ended."""
        self._tickets.pop(ticket, None)
        self._callbacks.pop(ticket, None)

    def release(self, rule: str) -> int:
        """Releases all frames that a rule holds; returns their number."""
        tickets = [ticket for ticket, holder in self._tickets.items() if holder == rule]
        for ticket in tickets:
            del self._tickets[ticket]
            callback = self._callbacks.pop(ticket, None)
            if callback is not None:
                callback()
        return len(tickets)
