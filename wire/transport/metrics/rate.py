"""How much of something a second, over windows that move along: what quotas are measured by. Does no I/O.

Source: `Rate`, `SimpleRate`, `SampledStat` and `QuotaUtils` of Kafka. Time is in seconds, of any clock that does not go
back.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple


class Windows(NamedTuple):
    """`quota.window.num` and `quota.window.size.seconds`."""

    number: int = 11
    seconds: float = 1.0


@dataclass(slots=True)
class _Sample:
    start: float
    last: float
    amount: float


class Rate:
    """Sums in at most one sample more than there are windows: one may overlap the beginning of the first."""

    __slots__ = ("_samples", "_total", "_windows")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._samples: deque[_Sample] = deque()
        self._total = 0.0

    def record(self, amount: float, now: float) -> None:
        """Adds `amount`; a negative one takes back what was added."""
        samples = self._samples
        if not samples or now - samples[-1].start >= self._windows.seconds:
            samples.append(_Sample(now, now, 0.0))
            if len(samples) > self._windows.number + 1:
                self._drop_oldest()
        samples[-1].amount += amount
        samples[-1].last = now
        self._total += amount

    def per_second(self, now: float) -> float:
        """The rate over the windows up to `now`."""
        return self._over(now)[0]

    def delay(self, limit: float, now: float) -> float:
        """Seconds of silence after which the rate is down to `limit`; 0 where it is not above."""
        rate, elapsed = self._over(now)
        return (rate - limit) / limit * elapsed if rate > limit else 0.0

    def _over(self, now: float) -> tuple[float, float]:
        """The rate, and the seconds that it is over: never fewer than all windows but the last."""
        number, seconds = self._windows
        while self._samples and now - self._samples[0].last >= number * seconds:
            self._drop_oldest()
        if not self._samples:
            self._total = 0.0  # what is left of rounding
        since = now if not self._samples else self._samples[0].start
        elapsed = max(self._elapsed(now - since), 0.001)  # as Kafka, which counts milliseconds
        return self._total / elapsed, elapsed

    def _elapsed(self, seconds: float) -> float:
        """Returns the seconds over which the events of the last `seconds` are spread: a new rate has not had all
        windows yet.
        """
        number, window = self._windows
        return seconds + max(number - 1 - int(seconds / window), 0) * window

    def _drop_oldest(self) -> None:
        self._total -= self._samples.popleft().amount


class SimpleRate(Rate):
    """A rate over the time since the oldest sample, at least a window: it allows no burst at the beginning. Replication
    is measured by it.
    """

    __slots__ = ()

    def delay(self, limit: float, now: float) -> float:
        rate, _ = self._over(now)
        return self._total / limit - (now - self._samples[0].start) if rate > limit else 0.0

    def _elapsed(self, seconds: float) -> float:
        return max(seconds, self._windows.seconds)
