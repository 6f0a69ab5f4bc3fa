"""How busy the event loop is, and how long those wait who are ready to run. A trio instrument.

A turn of the loop costs what it must: one hook of trio, a reading of the clock and a number kept. They are counted once
a second.
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
_COUNTED_SECONDS = 1.0  # some ten thousand turns at most, which is as many numbers


class LoopTimes(trio.abc.Instrument):
    """`turns` are the times from one look at the sockets to the next: what becomes ready waits at most so long."""

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
        # When the wait began that is not counted as idle yet.
        self._waits = loop.woken
        # Since they were counted last.
        self._turns: list[float] = []
        self._idle_seconds = 0.0

    def before_io_wait(self, _timeout: float) -> None:
        """trio: a turn has ended. The wait before it is known since it began."""
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
        if woken > self._waits:  # in a turn, after a wait that no turn has counted
            self._idle_seconds += woken - self._waits
            self._waits = woken
        self._histogram.observe_all(self._turns, now)
        self._idle.record(self._idle_seconds, now)
        self._turns, self._idle_seconds = [], 0.0
        self._due = now + _COUNTED_SECONDS

    def turns(self) -> TimeSummary:
        """How long they took, from waking up to looking at the sockets again."""
        now = monotonic()
        self._count(now)
        return self._histogram.summary(now)

    def idle_share(self) -> float:
        """From 0, never idle, to 1, over the last 30 to 60 s."""
        now = monotonic()
        self._count(now)
        lived = now - self._began
        share = self._idle.per_second(now)
        # A rate of a young process is over the whole of the first window.
        return min(1.0, share * max(1.0, _WINDOWS.seconds / max(lived, 1.0)))
