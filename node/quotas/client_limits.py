"""Client quotas: the quota that applies to a client, its use, and the wait of a client over its quota.

The most specific quota that applies to a client is used: user and client id, then user, then client id, each followed
by its defaults. The clients of a quota share it, or each has a quota of its own, as in Kafka. Does no I/O. Source:
`ClientQuotaManager`, `ControllerMutationQuotaManager` of Kafka, KIP-13, KIP-55, KIP-219, KIP-599, KIP-612. Not
implemented: `client.quota.callback.class`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from trimaran.node.text.memory import text_bytes
from trimaran.wire.transport.metrics.rate import Rate, Windows


class TokenBucket:
    """A rate with bursts: all available tokens can be taken in one call, and are refilled steadily.

    The bucket is full at first, and holds at most the tokens of `burst_seconds`. It is negative after more was taken
    than available. The rate, in tokens per second, is an argument of each call, since a quota may change. Unlike a rate
    over windows, a bucket does not penalise a single large use until its window is over. Time is in seconds of any
    monotonic clock. Source: `TokenBucket` of Kafka.
    """

    __slots__ = ("_burst_seconds", "_tokens", "_updated")

    def __init__(self, burst_seconds: float) -> None:
        self._burst_seconds = burst_seconds
        self._tokens: float | None = None
        self._updated = 0.0

    def take(self, tokens: float, rate: float, now: float) -> None:
        """Takes tokens even if the bucket becomes negative."""
        self._tokens = self.tokens(rate, now) - tokens

    def tokens(self, rate: float, now: float) -> float:
        """Returns the number of tokens at this time."""
        burst = self._burst_seconds * rate
        if self._tokens is None:
            self._tokens = burst
        self._tokens = min(burst, self._tokens + rate * (now - self._updated))
        self._updated = now
        return self._tokens

    def delay(self, rate: float, now: float) -> float:
        """Returns the seconds until the bucket is no longer negative."""
        return max(0.0, -self.tokens(rate, now) / rate)


# The (type, name) pairs of a quota's entity, sorted by type; None as the name is the default entity.
Entity = tuple[tuple[str, str | None], ...]
# User and client id, of which one is empty if the quota does not depend on it; or an address and an empty text.
Owner = tuple[str, str]

# Kafka forgets a client after an hour without a request.
IDLE_SECONDS = 3600.0
# Clients can choose any id, so the one that was idle for the longest time is forgotten. About 2 KB each.
OWNERS_MAX = 10_000
# The bound for the names of all owners, 400 bytes each on average. One name may have 32,767 bytes.
NAMES_BYTES_MAX = 4 << 20

T = TypeVar("T")


class ClientLimits(Generic[T]):
    """One kind of quota for all clients of a node. `measure` creates the meter of one owner."""

    def __init__(self, measure: Callable[[], T], owners_max: int = OWNERS_MAX) -> None:
        self._measure = measure
        self._owners_max = owners_max
        self._limits: Mapping[Entity, float] = {}
        # Ordered by last use.
        self._used: dict[Owner, tuple[T, float]] = {}
        self._names_bytes = 0
        # Whether there is any quota.
        self.is_set = False

    def __len__(self) -> int:
        """Returns the number of owners with a recorded use."""
        return len(self._used)

    def set_limits(self, limits: Mapping[Entity, float]) -> None:
        """Replaces the limits; they also apply to past use."""
        self._limits = limits
        self.is_set = bool(limits)
        if not limits:
            self._used.clear()
            self._names_bytes = 0

    def limit_of(self, user: str, client_id: str) -> tuple[Owner, float] | None:
        """Returns the owner of the quota that applies to a client, and its limit; None without one. A NaN limit is no
        limit, as in Kafka, because no rate exceeds it.
        """
        limits = self._limits
        for entity, owner in _candidates(user, client_id):
            limit = limits.get(entity)
            if limit is not None:
                return None if math.isnan(limit) else (owner, limit)
        return None

    def used_by(self, owner: Owner, now: float) -> T:
        """Returns the meter of the owner, and records it as used; owners that were idle for too long are dropped."""
        kept = self._used.pop(owner, None)
        measure = self._measure() if kept is None else kept[0]
        self._used[owner] = (measure, now)
        if kept is None:
            self._names_bytes += _names_bytes(owner)
            self._forget(now)
        return measure

    def _forget(self, now: float) -> None:
        """Evicts idle owners, then the least recently used above the limit."""
        while self._used:
            oldest, (_, used_at) = next(iter(self._used.items()))
            are_few = len(self._used) <= self._owners_max and self._names_bytes <= NAMES_BYTES_MAX
            if are_few and now - used_at < IDLE_SECONDS:
                return
            del self._used[oldest]
            self._names_bytes -= _names_bytes(oldest)


class ClientQuota(ClientLimits[Rate]):
    """A quota per second, such as `producer_byte_rate`."""

    def __init__(self, windows: Windows, owners_max: int = OWNERS_MAX) -> None:
        super().__init__(lambda: Rate(windows), owners_max)
        self._windows = windows

    def use(self, user: str, client_id: str, amount: float, now: float) -> float:
        """Counts `amount`; returns the number of seconds for which the client must then wait."""
        found = self.limit_of(user, client_id)
        if found is None:
            return 0.0
        owner, limit = found
        rate = self.used_by(owner, now)
        rate.record(amount, now)
        return rate.delay(limit, now)

    def use_if_allowed(self, user: str, client_id: str, amount: float, now: float) -> float:
        """Counts `amount` unless the client would then have to wait; returns the seconds of the wait."""
        delay = self.use(user, client_id, amount, now)
        if delay:
            self.use(user, client_id, -amount, now)
        return delay

    def most_at_once(self, user: str, client_id: str) -> float | None:
        """Returns the largest amount that a client with no recorded use may use in one request; None without a
        quota.
        """
        found = self.limit_of(user, client_id)
        if found is None:
            return None
        return found[1] * max(self._windows.number - 1, 1) * self._windows.seconds


class MutationQuota(ClientLimits[TokenBucket]):
    """`controller_mutation_rate`: one partition costs one token, and a burst of all windows together is allowed."""

    def __init__(self, windows: Windows, owners_max: int = OWNERS_MAX) -> None:
        super().__init__(lambda: TokenBucket(windows.number * windows.seconds), owners_max)

    def use(self, user: str, client_id: str, tokens: float, now: float) -> float:
        """Takes tokens even if the bucket becomes negative; returns the seconds until it is no longer negative."""
        found = self.limit_of(user, client_id)
        if found is None:
            return 0.0
        owner, rate = found
        bucket = self.used_by(owner, now)
        bucket.take(tokens, rate, now)
        return bucket.delay(rate, now)

    def use_if_allowed(self, user: str, client_id: str, tokens: float, now: float) -> float:
        """Takes tokens unless the bucket is negative already; returns the seconds until it is no longer negative."""
        found = self.limit_of(user, client_id)
        if found is None:
            return 0.0
        owner, rate = found
        bucket = self.used_by(owner, now)
        delay = bucket.delay(rate, now)
        if not delay:
            bucket.take(tokens, rate, now)
        return delay


class ConnectionQuota(ClientLimits[Rate]):
    """`connection_creation_rate`, for each address separately: its own quota, or the default."""

    def __init__(self, windows: Windows, owners_max: int = OWNERS_MAX) -> None:
        super().__init__(lambda: Rate(windows), owners_max)

    def use_if_allowed(self, ip: str, now: float) -> float:
        """Counts a connection unless it comes too early; returns the seconds by which it does."""
        limit = self._limits.get((("ip", ip),), self._limits.get((("ip", None),)))
        if limit is None or math.isnan(limit):
            return 0.0
        rate = self.used_by((ip, ""), now)
        rate.record(1, now)
        delay = rate.delay(limit, now)
        if delay:
            rate.record(-1, now)
        return delay


def _names_bytes(owner: Owner) -> int:
    return sum(map(text_bytes, owner))


def _candidates(user: str, client_id: str) -> tuple[tuple[Entity, Owner], ...]:
    """Returns the entities whose quotas apply to the client, the most specific first, each with its owner."""
    of_user: tuple[tuple[Entity, Owner], ...] = (
        ((("user", user),), (user, "")),
        (
            (("user", None),),
            (user, ""),
        ),
    )
    if not client_id:
        return of_user
    both, client = (user, client_id), ("client-id", client_id)
    anyone = ("client-id", None)
    return (
        ((client, ("user", user)), both),
        ((anyone, ("user", user)), both),
        of_user[0],
        ((client, ("user", None)), both),
        ((anyone, ("user", None)), both),
        of_user[1],
        ((client,), ("", client_id)),
        ((anyone,), ("", client_id)),
    )
