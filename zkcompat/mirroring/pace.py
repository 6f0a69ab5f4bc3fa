"""How fast a round over the whole tree goes: as a share of a CPU allows, and never longer than an interval.

A small tree is looked at every second or two like this, a large one as seldom as the interval says.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import trio

# Between two parts, so that a writer's packets find the connection free and the loop other things to do.
PAUSE_SECONDS = 0.005
# From the beginning of a round to that of the next.
ROUND_SECONDS_MIN = 1.0
# How many parts a round has, as long as none is done.
PARTS_GUESSED = 100


@dataclass(slots=True)
class Pace:
    """Of rounds that take at most `share` of a CPU, but for those that would last longer than `interval_seconds`."""

    share: float
    interval_seconds: float
    _parts: int = PARTS_GUESSED
    _done: int = 0
    _began: float = field(default_factory=trio.current_time)
    # The whole process's: whoever is busy with something else looks at the tree more slowly.
    _cpu_seconds: float = field(default_factory=time.process_time)

    async def rest(self) -> None:
        """Waits after a part."""
        spent = time.process_time() - self._cpu_seconds
        longest = self.interval_seconds / self._parts
        wanted = spent * (1 / self.share - 1) if self.share else longest
        self._done += 1
        await trio.sleep(max(PAUSE_SECONDS, min(wanted, longest)))
        self._cpu_seconds = time.process_time()

    async def next_round(self) -> None:
        """Waits after a round."""
        self._parts, self._done = max(1, self._done), 0
        round_seconds = min(ROUND_SECONDS_MIN, self.interval_seconds)
        await trio.sleep_until(self._began + round_seconds)
        self._began = trio.current_time()
        self._cpu_seconds = time.process_time()
