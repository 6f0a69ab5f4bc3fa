"""How busy the event loop is, and how long those wait who are ready to run. A trio instrument; about a microsecond a
turn.
"""

from __future__ import annotations

import time

import trio

from wire.transport.rate import Rate, Windows
from wire.transport.time_histogram import TimeHistogram

_WINDOWS = Windows(2, 30.0)
_RECORDED_SECONDS = 1.0  # not each turn: that took a third of what a turn costs here


class LoopTimes(trio.abc.Instrument):
    """`turns` are the times from one look at the sockets to the next: what becomes ready waits at most so long."""

    def __init__(self) -> None:
        self.turns = TimeHistogram()
        self._idle = Rate(_WINDOWS)
        self._woken = self._began = self._recorded = time.monotonic()
        self._idle_seconds = 0.0  # since `_recorded`

    def before_io_wait(self, timeout: float) -> None:  # noqa: ARG002 - of the interface
        now = time.monotonic()
        self.turns.observe(now - self._woken, now)
        self._woken = now

    def after_io_wait(self, timeout: float) -> None:  # noqa: ARG002 - of the interface
        now = time.monotonic()
        self._idle_seconds += now - self._woken
        self._woken = now
        if now - self._recorded >= _RECORDED_SECONDS:
            self._record(now)

    def _record(self, now: float) -> None:
        self._idle.record(self._idle_seconds, now)
        self._idle_seconds, self._recorded = 0.0, now

    def idle_share(self) -> float:
        """From 0, never idle, to 1, over the last 30 to 60 s."""
        now = time.monotonic()
        self._record(now)
        lived = now - self._began
        share = self._idle.per_second(now)
        # A rate of a young process is over the whole of the first window.
        return min(1.0, share * max(1.0, _WINDOWS.seconds / max(lived, 1.0)))
