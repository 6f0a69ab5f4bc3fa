"""How long something takes, in plain integers: cheap enough for every request, exact enough for quantiles.

Times are counted in buckets of microseconds, four to each power of two, so a quantile is at most an eighth off. They
are those of the last one to two minutes; `count` and `seconds` are of all time. Source: the decaying reservoirs of
Kafka's histograms, which look back at about five minutes.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

# An hour: nothing that is timed here lasts longer, and what does counts as that.
_MICROSECONDS_MAX = 3600 * 1_000_000
WINDOW_SECONDS = 60.0


def bucket_of(microseconds: int) -> int:
    """Four buckets to a power of two; below four each value has its own."""
    bits = microseconds.bit_length()
    if bits < 3:
        return microseconds
    return ((bits - 2) << 2) + ((microseconds >> (bits - 3)) & 3)


def low_of(bucket: int) -> int:
    """The least microseconds of a bucket."""
    return bucket if bucket < 4 else (4 + (bucket & 3)) << ((bucket >> 2) - 1)


def middle_of(bucket: int) -> float:
    """The middle of a bucket, in microseconds."""
    if bucket < 4:
        return float(bucket)
    return low_of(bucket) + ((1 << ((bucket >> 2) - 1)) - 1) / 2


def _microseconds(seconds: float) -> int:
    return min(max(0, int(seconds * 1e6)), _MICROSECONDS_MAX)


BUCKETS = bucket_of(_MICROSECONDS_MAX) + 1


@dataclass(frozen=True, slots=True)
class TimeSummary:
    """`count` and `seconds` are of all time; results from `counts`, by bucket, are of the last minutes."""

    count: int
    seconds: float
    counts: Sequence[int]

    def __add__(self, other: TimeSummary) -> TimeSummary:
        counts = [a + b for a, b in zip(self.counts, other.counts, strict=True)]
        return TimeSummary(self.count + other.count, self.seconds + other.seconds, counts)

    def quantiles(self, wanted: tuple[float, ...]) -> list[float]:
        """In seconds; zeros if nothing happened."""
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
        """In seconds, to an eighth; zeros if nothing happened."""
        used = [bucket for bucket, count in enumerate(self.counts) if count]
        if not used:
            return 0.0, 0.0
        total = sum(self.counts[bucket] * middle_of(bucket) for bucket in used)
        return total / sum(self.counts) / 1e6, middle_of(used[-1]) / 1e6


class TimeHistogram:
    """Two windows, the present one and the last; made of integers when first used."""

    __slots__ = ("_before", "_ends", "_now", "count", "seconds")

    def __init__(self) -> None:
        self.count = 0
        self.seconds = 0.0
        self._now: list[int] = []
        self._before: list[int] = []
        self._ends = 0.0

    def observe(self, seconds: float, now: float | None = None) -> None:
        """Counts one duration; `now` is that of `time.monotonic`, for callers that have read it already."""
        now = time.monotonic() if now is None else now
        if now >= self._ends:
            self._turn(now)
        self.count += 1
        self.seconds += seconds
        microseconds = int(seconds * 1e6)
        if 4 <= microseconds <= _MICROSECONDS_MAX:  # `bucket_of`, without the call
            bits = microseconds.bit_length()
            self._now[((bits - 2) << 2) + ((microseconds >> (bits - 3)) & 3)] += 1
        else:
            self._now[bucket_of(min(max(0, microseconds), _MICROSECONDS_MAX))] += 1

    def observe_all(self, seconds: list[float], now: float) -> None:
        """The same for many at once, a tenth of the work; the list is sorted by it."""
        if now >= self._ends:
            self._turn(now)
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
        """Returns all durations that were observed, with those of the last one to two minutes by bucket."""
        now = time.monotonic() if now is None else now
        if now >= self._ends:
            self._turn(now)
        counts = [a + b for a, b in zip(self._now, self._before, strict=True)]
        return TimeSummary(self.count, self.seconds, counts)

    def _turn(self, now: float) -> None:
        """The present window becomes the last, unless it is older than that."""
        is_recent = now < self._ends + WINDOW_SECONDS
        self._before = self._now if is_recent and self._now else [0] * BUCKETS
        self._now = [0] * BUCKETS
        self._ends = now + WINDOW_SECONDS
