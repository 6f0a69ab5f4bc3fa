"""Requests on their way: at most one per peer, each with a deadline, and a backoff after a failure.

Source: Kafka's `RequestManager`, with a backoff that doubles. Forgetting everything at a change of role makes late answers
unknown, and unknown answers are dropped: no answer is ever judged by another role than the one that asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from quorum.raft.types import Peer, Timeouts

# Far above any quorum with its bootstrap servers. Only who asks to become a voter comes on top of those, under whatever id he likes: when there are
# so many, the idle ones are forgotten.
LINES_KEPT = 64


@dataclass(slots=True)
class _Line:
    """What we know about sending to one peer."""

    token: int | None = None
    overdue: float = inf
    expires: float = inf
    resume: float = -inf
    failures: int = 0

    def is_busy(self, now: float) -> bool:
        return self.token is not None or now < self.resume


class Sent(NamedTuple):
    """A request on its way: to whom, and where our log ended then."""

    peer: Peer
    log_end: int


class Requests:
    """Keyed by peer id; tokens are never reused."""

    __slots__ = ("_by_token", "_lines", "_next_expiry", "_next_token", "_timeouts")

    def __init__(self, timeouts: Timeouts, first_token: int = 1) -> None:
        self._timeouts = timeouts
        self._lines: dict[int, _Line] = {}
        self._by_token: dict[int, Sent] = {}
        self._next_token = first_token
        # nothing expires before
        self._next_expiry = inf

    def reset(self) -> None:
        """Forgets requests in flight and backoffs."""
        self._lines.clear()
        self._by_token.clear()

    def is_ready(self, peer: Peer, now: float) -> bool:
        line = self._lines.get(peer.id)
        return line is None or (line.token is None and now >= line.resume)

    def is_backing_off(self, peer: Peer, now: float) -> bool:
        line = self._lines.get(peer.id)
        return line is not None and line.token is None and now < line.resume

    def is_waiting(self, now: float) -> bool:
        """Whether an answer is on its way that is not overdue."""
        for line in self._lines.values() if self._by_token else ():
            if line.token is not None and now < line.overdue:
                return True
        return False

    def is_in_flight(self, peer: Peer) -> bool:
        line = self._lines.get(peer.id)
        return line is not None and line.token is not None

    def is_overdue(self, peer: Peer, now: float) -> bool:
        line = self._lines.get(peer.id)
        return line is not None and line.token is not None and now >= line.overdue

    def sent(self, peer: Peer, log_end: int, patience: float, now: float) -> int:
        """Registers a request whose answer is overdue after `patience`, or at once if the peer has failed us last time; returns its token."""
        token = self._next_token
        self._next_token += 1
        line = self._line_to(peer, now)
        line.token, line.expires = token, now + self._timeouts.request
        line.overdue = now if line.failures else now + patience
        self._next_expiry = min(self._next_expiry, line.expires)
        self._by_token[token] = Sent(peer, log_end)
        return token

    def answered(self, token: int) -> Sent | None:
        """What was sent under a token, its peer free again; None if the answer is no longer awaited."""
        sent = self._by_token.pop(token, None)
        if sent is not None:
            line = self._lines[sent.peer.id]
            line.token, line.overdue, line.expires = None, inf, inf
        return sent

    def succeeded(self, peer: Peer) -> None:
        line = self._lines.get(peer.id)
        if line is not None:
            line.failures, line.resume = 0, -inf

    def back_off(self, peer: Peer, now: float) -> None:
        line = self._line_to(peer, now)
        line.failures += 1
        first = self._timeouts.retry_backoff
        delay = first * 2 ** min(line.failures - 1, 16)
        line.resume = now + min(delay, max(first, self._timeouts.retry_backoff_max))

    def _line_to(self, peer: Peer, now: float) -> _Line:
        line = self._lines.get(peer.id)
        if line is None:
            if len(self._lines) >= LINES_KEPT:
                self._lines = {id_: line for id_, line in self._lines.items() if line.is_busy(now)}
            line = self._lines[peer.id] = _Line()
        return line

    def expire(self, now: float) -> None:
        """Gives up the requests whose time is over; their peers back off."""
        if now < self._next_expiry:
            return
        for line in [line for line in self._lines.values() if line.expires <= now]:
            sent = None if line.token is None else self.answered(line.token)
            if sent is not None:
                self.back_off(sent.peer, now)
        self._next_expiry = min((line.expires for line in self._lines.values()), default=inf)

    def deadline(self, now: float) -> float:
        """When a request is overdue or expires, or a peer may be asked again."""
        earliest = inf
        for line in self._lines.values():
            if line.token is not None:
                when = line.overdue if line.overdue > now else line.expires
            else:
                when = line.resume if line.resume > now else inf
            if when < earliest:
                earliest = when
        return earliest
