"""The quotas of clients: which quota is whose, what each has used, and how long who used too much must wait.

The most precise of the quotas that name a client holds: user and client id, then user, then client id, with the
defaults of each behind its names. The clients of a quota share it, or each has its own, as in Kafka. Does no I/O.
Source: `ClientQuotaManager`, `ControllerMutationQuotaManager` of Kafka, KIP-13, KIP-55, KIP-219, KIP-599, KIP-612.
Not implemented: `client.quota.callback.class`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from trimaran.node.text.memory import text_bytes
from trimaran.wire.transport.metrics.rate import Rate, Windows


class TokenBucket:
    """A rate with bursts: tokens that are there are taken at once, and come back steadily.

    It is full at first, and never fuller than what `burst_seconds` bring. Below zero, more was taken than there was.
    The rate, in tokens per second, is an argument each time, since a quota may change. Unlike a rate over windows, a
    bucket does not penalise a single large use until its window is over. Time is in seconds, of any clock that does not
    go back. Source: `TokenBucket` of Kafka.
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


# (type, name) of what a quota is for, by type; without a name it is the default.
Entity = tuple[tuple[str, str | None], ...]
# User and client id, of which one is empty where a quota is not about it; an address, and nothing.
Owner = tuple[str, str]

# Kafka forgets a client after an hour without a request.
IDLE_SECONDS = 3600.0
# Clients may call themselves anything: the one that was quiet for the longest is forgotten. About 2 KB each.
OWNERS_MAX = 10_000
# The bound for all their names: 400 bytes each. One name may have 32,767 bytes.
NAMES_BYTES_MAX = 4 << 20

T = TypeVar("T")


class ClientLimits(Generic[T]):
    """One kind of quota of all clients of a node. `measure` makes what the use of one owner is measured by."""

    def __init__(self, measure: Callable[[], T], owners_max: int = OWNERS_MAX) -> None:
        self._measure = measure
        self._owners_max = owners_max
        self._limits: Mapping[Entity, float] = {}
        # The one used last at the end.
        self._used: dict[Owner, tuple[T, float]] = {}
        self._names_bytes = 0
        # Whether there is any quota.
        self.is_set = False

    def __len__(self) -> int:
        """Clients whose use is remembered."""
        return len(self._used)

    def set_limits(self, limits: Mapping[Entity, float]) -> None:
        """These hold from now on, for what was used before as well."""
        self._limits = limits
        self.is_set = bool(limits)
        if not limits:
            self._used.clear()
            self._names_bytes = 0

    def limit_of(self, user: str, client_id: str) -> tuple[Owner, float] | None:
        """Returns the owner of the quota that applies to a client, and its limit; None without one. A limit of NaN is
        none, as in Kafka: no rate is above it.
        """
        limits = self._limits
        for entity, owner in _candidates(user, client_id):
            limit = limits.get(entity)
            if limit is not None:
                return None if math.isnan(limit) else (owner, limit)
        return None

    def used_by(self, owner: Owner, now: float) -> T:
        """Returns the usage of the owner; remembered from now on, in place of owners that were idle for too long."""
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
        """Counts `amount`, and answers for how many seconds the client is then to be silent."""
        found = self.limit_of(user, client_id)
        if found is None:
            return 0.0
        owner, limit = found
        rate = self.used_by(owner, now)
        rate.record(amount, now)
        return rate.delay(limit, now)

    def use_if_allowed(self, user: str, client_id: str, amount: float, now: float) -> float:
        """As `use`, but counts nothing where the client must be silent."""
        delay = self.use(user, client_id, amount, now)
        if delay:
            self.use(user, client_id, -amount, now)
        return delay

    def most_at_once(self, user: str, client_id: str) -> float | None:
        """More than this is too much for a client that has used nothing; None without a quota."""
        found = self.limit_of(user, client_id)
        if found is None:
            return None
        return found[1] * max(self._windows.number - 1, 1) * self._windows.seconds


class MutationQuota(ClientLimits[TokenBucket]):
    """`controller_mutation_rate`: one partition is one token, and a burst of all windows together is allowed."""

    def __init__(self, windows: Windows, owners_max: int = OWNERS_MAX) -> None:
        super().__init__(lambda: TokenBucket(windows.number * windows.seconds), owners_max)

    def use(self, user: str, client_id: str, tokens: float, now: float) -> float:
        """Takes tokens, even those that are not there; seconds until what is missing is made up for."""
        found = self.limit_of(user, client_id)
        if found is None:
            return 0.0
        owner, rate = found
        bucket = self.used_by(owner, now)
        bucket.take(tokens, rate, now)
        return bucket.delay(rate, now)

    def use_if_allowed(self, user: str, client_id: str, tokens: float, now: float) -> float:
        """Takes tokens unless some are missing already: then none, and the seconds until that is made up for."""
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
    """`connection_creation_rate`, for each address by itself: a quota of its own, or the default of all."""

    def __init__(self, windows: Windows, owners_max: int = OWNERS_MAX) -> None:
        super().__init__(lambda: Rate(windows), owners_max)

    def use_if_allowed(self, ip: str, now: float) -> float:
        """Counts a connection, unless it comes too early: the seconds by which it does."""
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
    """Returns the entities whose quotas hold for such a client, the most precise first, with the owner that shares
    each.
    """
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
