"""A histogram of durations since the process started, in a form that Prometheus can sum over nodes."""

from __future__ import annotations

from bisect import bisect_left

# Bucket bounds in seconds: powers of two from an eighth of a millisecond to eight seconds, the range of disks and
# networks.
BOUNDS = tuple(2.0**power for power in range(-13, 4))


class CumulativeHistogram:
    """A histogram of plain integers; an observation costs a microsecond."""

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

    def buckets(self) -> dict[str, int]:
        """Returns upper bounds in seconds, as text, each with the number of durations up to it; the last is `+Inf`."""
        found, count = {}, 0
        for bound, each_count in zip((*map(str, BOUNDS), "+Inf"), self._counts, strict=True):
            count += each_count
            found[bound] = count
        return found
