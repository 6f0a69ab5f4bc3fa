"""An alarm for a time that changes often: every answer of a peer postpones a timeout.

A task that waits for an event with a deadline needs a new cancel scope each time; here one task sleeps, and is woken
only if the time moves closer.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import trio


class Alarm:
    """An alarm: `run` rings once for each `set`, at that time or as soon afterwards as the loop allows; times are
    trio's.
    """

    __slots__ = ("_at", "_ring", "_sleep")

    def __init__(self, ring: Callable[[], object]) -> None:
        self._ring = ring
        self._at = inf
        self._sleep = trio.CancelScope()

    def set(self, at: float) -> None:
        """Replaces the time; infinity means never."""
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
