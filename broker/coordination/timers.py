"""Named deadlines in a heap, without a clock: sessions, join and sync phases, writes, expiry.

Heartbeats postpone a deadline thousands of times before it is due; therefore `set` to a later time only stores it in a
dictionary, and the heap entry is updated when it reaches the top. The shard's timer task sleeps until `earliest()`.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from itertools import count
from math import inf
from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)


class Instant(NamedTuple):
    """A point in time: `now` in monotonic seconds for deadlines, `now_ms` by the wall clock for records."""

    now: float
    now_ms: int

    def after_ms(self, delay_ms: int) -> float:
        """Returns the monotonic deadline `delay_ms` from now."""
        return self.now + delay_ms / 1000


class Timers(Generic[K]):
    """At most one deadline per key, in monotonic seconds."""

    def __init__(self) -> None:
        self._deadlines: dict[K, float] = {}
        # (deadline, serial, key): one live entry per key at or before its deadline, and stale entries of keys that were
        # cancelled or moved forward; they are dropped at the top of the heap, or when they outnumber the live entries.
        self._heap: list[tuple[float, int, K]] = []
        self._entries: dict[K, float] = {}
        self._serials = count()

    def __len__(self) -> int:
        return len(self._deadlines)

    def __contains__(self, key: K) -> bool:
        return key in self._deadlines

    def set(self, key: K, deadline: float) -> None:
        """Sets or moves the deadline of `key`."""
        self._deadlines[key] = deadline
        entry = self._entries.get(key)
        if entry is None or entry > deadline:
            self._push(key, deadline)
            self._trim()

    def bring_forward(self, key: K, deadline: float) -> None:
        """Sets the deadline of `key` unless it already has an earlier one."""
        if deadline < self._deadlines.get(key, inf):
            self.set(key, deadline)

    def cancel(self, key: K) -> None:
        """Removes `key` if it is present."""
        self._deadlines.pop(key, None)
        self._trim()

    def earliest(self) -> float | None:
        """Returns the earliest deadline, or None."""
        while self._heap:
            deadline, _, key = self._heap[0]
            wanted = self._deadlines.get(key)
            if wanted == deadline:
                return deadline
            heapq.heappop(self._heap)
            if self._entries.get(key) == deadline:
                del self._entries[key]
                if wanted is not None:
                    self._push(key, wanted)
        return None

    def pop_due(self, now: float) -> K | None:
        """Removes and returns the key with the earliest deadline if that is not after `now`, else None."""
        earliest = self.earliest()
        if earliest is None or earliest > now:
            return None
        key = heapq.heappop(self._heap)[2]
        del self._entries[key]
        del self._deadlines[key]
        self._trim()
        return key

    def _push(self, key: K, deadline: float) -> None:
        self._entries[key] = deadline
        heapq.heappush(self._heap, (deadline, next(self._serials), key))

    def _trim(self) -> None:
        """Drops stale entries once they make up more than half of the heap."""
        if len(self._heap) <= 2 * len(self._deadlines) + 16:
            return
        self._heap = []
        self._entries = {}
        for key, deadline in self._deadlines.items():
            self._push(key, deadline)
