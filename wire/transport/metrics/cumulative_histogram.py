"""How long something takes, since the process began, in the form that Prometheus adds up over nodes."""

from __future__ import annotations

from bisect import bisect_left

# Seconds; powers of two from an eighth of a millisecond to eight seconds, where disks and networks are to be found.
BOUNDS = tuple(2.0**power for power in range(-13, 4))


class CumulativeHistogram:
    """Plain integers; an observation costs a microsecond."""

    __slots__ = ("_counts", "seconds")

    def __init__(self) -> None:
        self.seconds = 0.0
        self._counts = [0] * (len(BOUNDS) + 1)

    def observe(self, seconds: float) -> None:
        self._counts[bisect_left(BOUNDS, seconds)] += 1
        self.seconds += seconds

    def add(self, other: CumulativeHistogram) -> None:
        self.seconds += other.seconds
        self._counts = [a + b for a, b in zip(self._counts, other._counts, strict=True)]

    def buckets(self) -> list[tuple[str, int]]:
        """Upper bound in seconds as text, and how many took at most so long; the last one is `+Inf`."""
        found, count = [], 0
        for bound, each_count in zip((*map(str, BOUNDS), "+Inf"), self._counts, strict=True):
            count += each_count
            found.append((bound, count))
        return found
