"""Rates per second over sliding windows, by which quotas are measured. Does no I/O.

Source: `Rate`, `SimpleRate`, `SampledStat` and `QuotaUtils` of Kafka. Times are in seconds of any monotonic clock.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple


class Windows(NamedTuple):
    """The number of windows and their length: `quota.window.num` and `quota.window.size.seconds`."""

    number: int = 11
    seconds: float = 1.0


@dataclass(slots=True)
class _Sample:
    start: float
    last: float
    amount: float


class Rate:
    """A rate computed from the sums of samples; there is at most one sample more than windows: one sample
    may overlap the start of the first window.
    """

    __slots__ = ("_samples", "_total", "_windows")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._samples: deque[_Sample] = deque()
        self._total = 0.0

    def record(self, amount: float, now: float) -> None:
        """Adds `amount`; a negative amount reverts an earlier one."""
        samples = self._samples
        if not samples or now - samples[-1].start >= self._windows.seconds:
            samples.append(_Sample(now, now, 0.0))
            if len(samples) > self._windows.number + 1:
                self._drop_oldest()
        samples[-1].amount += amount
        samples[-1].last = now
        self._total += amount

    def per_second(self, now: float) -> float:
        """Returns the rate over the windows up to `now`."""
        return self._over(now)[0]

    def delay(self, limit: float, now: float) -> float:
        """Returns the idle time in seconds after which the rate falls to `limit`; 0 if it is not above `limit`."""
        rate, elapsed = self._over(now)
        return (rate - limit) / limit * elapsed if rate > limit else 0.0

    def _over(self, now: float) -> tuple[float, float]:
        """Returns the rate, and the seconds over which it is computed: at least all windows except the last."""
        number, seconds = self._windows
        while self._samples and now - self._samples[0].last >= number * seconds:
            self._drop_oldest()
        if not self._samples:
            self._total = 0.0  # rounding errors remain
        since = now if not self._samples else self._samples[0].start
        elapsed = max(self._elapsed(now - since), 0.001)  # like Kafka, which counts milliseconds
        return self._total / elapsed, elapsed

    def _elapsed(self, seconds: float) -> float:
        """Returns the seconds over which the events of the last `seconds` are spread: a new rate does not cover all
        windows yet.
        """
        number, window = self._windows
        return seconds + max(number - 1 - int(seconds / window), 0) * window

    def _drop_oldest(self) -> None:
        self._total -= self._samples.popleft().amount


class SimpleRate(Rate):
    """A rate over the time since the oldest sample, at least one window, so that it allows no initial burst. Used for
    replication.
    """

    __slots__ = ()

    def delay(self, limit: float, now: float) -> float:
        rate, _ = self._over(now)
        return self._total / limit - (now - self._samples[0].start) if rate > limit else 0.0

    def _elapsed(self, seconds: float) -> float:
        return max(seconds, self._windows.seconds)
