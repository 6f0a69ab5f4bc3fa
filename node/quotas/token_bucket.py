"""So much a second, and bursts: tokens that are there are taken at once, and come back steadily. Does no I/O.

Unlike a rate over windows, it does not penalise a single large use until its window is over.
Source: `TokenBucket` of Kafka. Time is in seconds, of any clock that does not go back.
"""

from __future__ import annotations


class TokenBucket:
    """Full at first, and never fuller than what `burst_seconds` bring. Below zero: more was taken than there was.

    The rate, in tokens per second, is an argument each time, since a quota may change.
    """

    __slots__ = ("_burst_seconds", "_tokens", "_updated")

    def __init__(self, burst_seconds: float) -> None:
        self._burst_seconds = burst_seconds
        self._tokens: float | None = None
        self._updated = 0.0

    def take(self, tokens: float, rate: float, now: float) -> None:
        """Takes them whether or not they are there."""
        self._tokens = self.tokens(rate, now) - tokens

    def tokens(self, rate: float, now: float) -> float:
        """How many there are now."""
        burst = self._burst_seconds * rate
        if self._tokens is None:
            self._tokens = burst
        self._tokens = min(burst, self._tokens + rate * (now - self._updated))
        self._updated = now
        return self._tokens

    def delay(self, rate: float, now: float) -> float:
        """Seconds until nothing is missing any more."""
        return max(0.0, -self.tokens(rate, now) / rate)
