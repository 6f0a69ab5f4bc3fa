"""The pace of a command with a limit of records per second."""

from __future__ import annotations

import time
from collections.abc import Callable


class RecordPace:
    """Allows at most `rate` turns a second, evenly spaced; None means no limit. Missed turns are not made up for."""

    def __init__(
        self,
        rate: int | None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._seconds = 0.0 if rate is None else 1 / rate
        self._clock, self._sleep = clock, sleep
        self._next = 0.0

    def wait(self) -> None:
        """Waits for the next turn."""
        if not self._seconds:
            return
        now = self._clock()
        if now < self._next:
            self._sleep(self._next - now)
            now = self._next
        self._next = now + self._seconds
