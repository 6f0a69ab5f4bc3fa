"""Records a second of topics, from the end offsets that pages have read: they need no metrics."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

# Two readings that are closer together say little: a page is loaded again every five seconds.
APART_SECONDS = 4.0
# A reading that is older tells about another time.
KEPT_SECONDS = 120.0
TOPICS_MAX = 10_000  # topics with readings; the oldest readings are dropped


class EndReading(NamedTuple):
    time: float
    ends: int


@dataclass(slots=True)
class TopicRates:
    """Keeps two readings of each topic, at least `APART_SECONDS` apart."""

    _readings: dict[str, tuple[EndReading, EndReading]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def read(self, ends: Mapping[str, int], now: float) -> dict[str, float]:
        """Adds readings of the sums of end offsets; returns the records a second of topics with two readings."""
        with self._lock:
            return {
                name: rate
                for name, total in ends.items()
                if (rate := self._added(name, EndReading(now, total))) is not None
            }

    def _added(self, name: str, reading: EndReading) -> float | None:
        before, newest = self._readings.pop(name, (reading, reading))
        is_new_topic = reading.ends < newest.ends  # it was deleted and created again
        if is_new_topic or reading.time - newest.time > KEPT_SECONDS:
            before = newest = reading
        if reading.time - newest.time >= APART_SECONDS:
            before, newest = newest, reading
        self._readings[name] = (before, newest)
        while len(self._readings) > TOPICS_MAX:
            del self._readings[next(iter(self._readings))]
        apart = reading.time - before.time
        return (reading.ends - before.ends) / apart if apart >= APART_SECONDS else None
