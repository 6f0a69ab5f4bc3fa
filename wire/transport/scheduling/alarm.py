"""Calls back when a moment has come that moves all the time: every answer of a peer puts a timeout off.

A task that waits for an event with a deadline pays for a cancel scope each time; here one sleeps, and is disturbed only
when the moment comes nearer.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import trio


class Alarm:
    """`run` rings once for each `set`, at that moment or as soon after it as the loop has time; times are trio's."""

    __slots__ = ("_at", "_ring", "_sleep")

    def __init__(self, ring: Callable[[], object]) -> None:
        self._ring = ring
        self._at = inf
        self._sleep = trio.CancelScope()

    def set(self, at: float) -> None:
        """Sets another time in place of the last one; infinite: never."""
        self._at = at
        if at < self._sleep.deadline:
            self._sleep.deadline = at

    async def run(self) -> None:
        """Rings until cancelled."""
        while True:
            with trio.CancelScope(deadline=self._at) as self._sleep:
                await trio.sleep_forever()
            if trio.current_time() >= self._at:
                self._at = inf
                self._ring()
