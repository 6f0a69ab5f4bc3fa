"""A histogram of durations in plain integers: cheap enough for every request, exact enough for quantiles.

Durations are counted in buckets of microseconds, four to each power of two, so the error of a quantile is at most an
eighth. Buckets cover the last one to two minutes; `count` and `seconds` cover all time. Source: the decaying reservoirs
of Kafka's histograms, which cover about five minutes.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

# One hour; longer durations are counted as one hour.
_MICROSECONDS_MAX = 3600 * 1_000_000
WINDOW_SECONDS = 60.0


def bucket_of(microseconds: int) -> int:
    """Returns the bucket of a duration: four to each power of two; each value below four has its own bucket."""
    bits = microseconds.bit_length()
    if bits < 3:
        return microseconds
    return ((bits - 2) << 2) + ((microseconds >> (bits - 3)) & 3)


def low_of(bucket: int) -> int:
    """Returns the lower bound of a bucket, in microseconds."""
    return bucket if bucket < 4 else (4 + (bucket & 3)) << ((bucket >> 2) - 1)


def middle_of(bucket: int) -> float:
    """Returns the middle of a bucket, in microseconds."""
    if bucket < 4:
        return float(bucket)
    return low_of(bucket) + ((1 << ((bucket >> 2) - 1)) - 1) / 2


def _microseconds(seconds: float) -> int:
    return min(max(0, int(seconds * 1e6)), _MICROSECONDS_MAX)


BUCKETS = bucket_of(_MICROSECONDS_MAX) + 1


@dataclass(frozen=True, slots=True)
class TimeSummary:
    """A summary. `count` and `seconds` cover all time; results computed from `counts`, by bucket, cover the last
    minutes.
    """

    count: int
    seconds: float
    counts: Sequence[int]

    def __add__(self, other: TimeSummary) -> TimeSummary:
        counts = [a + b for a, b in zip(self.counts, other.counts, strict=True)]
        return TimeSummary(self.count + other.count, self.seconds + other.seconds, counts)

    def quantiles(self, wanted: tuple[float, ...]) -> list[float]:
        """Returns the quantiles in seconds; zeros if nothing was observed."""
        total = sum(self.counts)
        return [self._quantile(quantile * total) if total else 0.0 for quantile in wanted]

    def _quantile(self, rank: float) -> float:
        seen = last = 0
        for bucket, count in enumerate(self.counts):
            if count:
                seen, last = seen + count, bucket
                if seen >= rank:
                    break
        return middle_of(last) / 1e6

    def mean_and_longest(self) -> tuple[float, float]:
        """Returns both in seconds, accurate to an eighth; zeros if nothing was observed."""
        used = [bucket for bucket, count in enumerate(self.counts) if count]
        if not used:
            return 0.0, 0.0
        total = sum(self.counts[bucket] * middle_of(bucket) for bucket in used)
        return total / sum(self.counts) / 1e6, middle_of(used[-1]) / 1e6


class TimeHistogram:
    """Two windows, the current and the previous one; their buckets are allocated at the first use."""

    __slots__ = ("_before", "_ends", "_now", "count", "seconds")

    def __init__(self) -> None:
        self.count = 0
        self.seconds = 0.0
        self._now: list[int] = []
        self._before: list[int] = []
        self._ends = 0.0

    def observe(self, seconds: float, now: float | None = None) -> None:
        """Counts one duration. Callers that have already read `time.monotonic` pass it as `now`."""
        now = time.monotonic() if now is None else now
        if now >= self._ends:
            self._rotate(now)
        self.count += 1
        self.seconds += seconds
        microseconds = int(seconds * 1e6)
        if 4 <= microseconds <= _MICROSECONDS_MAX:  # `bucket_of`, inlined
            bits = microseconds.bit_length()
            self._now[((bits - 2) << 2) + ((microseconds >> (bits - 3)) & 3)] += 1
        else:
            self._now[bucket_of(min(max(0, microseconds), _MICROSECONDS_MAX))] += 1

    def observe_all(self, seconds: list[float], now: float) -> None:
        """Counts many durations at a tenth of the cost; sorts the list in place."""
        if now >= self._ends:
            self._rotate(now)
        self.count += len(seconds)
        self.seconds += sum(seconds)
        seconds.sort()
        start = 0
        while start < len(seconds):
            bucket = bucket_of(_microseconds(seconds[start]))
            end = bisect_left(seconds, low_of(bucket + 1), start, key=_microseconds)
            self._now[bucket] += end - start
            start = end

    def summary(self, now: float | None = None) -> TimeSummary:
        """Returns the totals of all durations, and those of the last one to two minutes by bucket."""
        now = time.monotonic() if now is None else now
        if now >= self._ends:
            self._rotate(now)
        counts = [a + b for a, b in zip(self._now, self._before, strict=True)]
        return TimeSummary(self.count, self.seconds, counts)

    def _rotate(self, now: float) -> None:
        """Makes the current window the previous one, or drops it if it is too old."""
        is_recent = now < self._ends + WINDOW_SECONDS
        self._before = self._now if is_recent and self._now else [0] * BUCKETS
        self._now = [0] * BUCKETS
        self._ends = now + WINDOW_SECONDS
