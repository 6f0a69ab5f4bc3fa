"""The load of the event loop, and the time for which runnable tasks wait: an instrument of trio.

A turn of the loop costs only one hook of trio, one reading of the clock and one stored number. The numbers are added to
the histogram once a second.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

import trio

from trimaran.wire.transport.metrics.rate import Rate, Windows
from trimaran.wire.transport.metrics.time_histogram import TimeHistogram, TimeSummary
from trimaran.wire.transport.scheduling.loop_turns import LoopTurns

_WINDOWS = Windows(2, 30.0)
_COUNTED_SECONDS = 1.0  # at most about ten thousand turns, so as many stored numbers


class LoopTimes(trio.abc.Instrument):
    """Times of turns: from one poll of the sockets to the next. A task that becomes ready waits for at most one
    turn.
    """

    __slots__ = (
        "_began",
        "_due",
        "_histogram",
        "_idle",
        "_idle_seconds",
        "_loop",
        "_turns",
        "_waits",
    )

    def __init__(self, loop: LoopTurns) -> None:
        self._loop = loop
        self._histogram = TimeHistogram()
        self._idle = Rate(_WINDOWS)
        self._began = monotonic()
        self._due = self._began + _COUNTED_SECONDS
        # The beginning of the wait that is not yet counted as idle.
        self._waits = loop.woken
        # The turns and idle seconds since the last `_count`.
        self._turns: list[float] = []
        self._idle_seconds = 0.0

    def before_io_wait(self, _timeout: float) -> None:
        """Called by trio when a turn has ended; the wait before the turn is counted only now."""
        now = monotonic()
        woken = self._loop.woken
        self._turns.append(now - woken)
        self._idle_seconds += woken - self._waits
        self._waits = now
        if now >= self._due:
            self._count(now)

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Counts each turn of the loop within the block."""
        self._waits = self._loop.woken
        trio.lowlevel.add_instrument(self)
        try:
            yield
        finally:
            trio.lowlevel.remove_instrument(self)

    def _count(self, now: float) -> None:
        woken = self._loop.woken
        if woken > self._waits:  # called within a turn: the wait before it is not counted yet
            self._idle_seconds += woken - self._waits
            self._waits = woken
        self._histogram.observe_all(self._turns, now)
        self._idle.record(self._idle_seconds, now)
        self._turns, self._idle_seconds = [], 0.0
        self._due = now + _COUNTED_SECONDS

    def turns(self) -> TimeSummary:
        """Returns the durations of turns, from waking up to the next poll of the sockets."""
        now = monotonic()
        self._count(now)
        return self._histogram.summary(now)

    def idle_share(self) -> float:
        """Returns the idle share over the last 30 to 60 s, from 0 (never idle) to 1."""
        now = monotonic()
        self._count(now)
        lived = now - self._began
        share = self._idle.per_second(now)
        # The rate of a young process is computed over the full length of the first window.
        return min(1.0, share * max(1.0, _WINDOWS.seconds / max(lived, 1.0)))
