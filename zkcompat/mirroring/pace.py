"""How fast a round over the whole tree goes: as a share of a CPU allows, and never longer than an interval.

A small tree is looked at every second or two like this, a large one as seldom as the interval says. What work costs is
reckoned, not measured: a clock of CPU time counts what else the process does, and how crowded the machine is, and would
slow a round down most where there is much to find.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import trio

# Between two parts, so that a writer's packets find the connection free and the loop other things to do.
PAUSE_SECONDS = 0.005
# From the beginning of a round to that of the next.
ROUND_SECONDS_MIN = 1.0
# How many parts a round has, as long as none is done.
PARTS_GUESSED = 100
# What reading and comparing costs on a CPU of 2024: a part, and each znode of it. Measured on trees of up to 3,000.
PART_CPU_SECONDS = 1e-3
ZNODE_CPU_SECONDS = 16e-6
# A step of a transaction, most of which are sent again and again where one after the other is refused.
STEP_CPU_SECONDS = 12e-6


def cpu_seconds(znodes: int, steps: int = 0) -> float:
    """About what it costs to look at a part with so many znodes, and to ask ZooKeeper for so many steps."""
    return PART_CPU_SECONDS + znodes * ZNODE_CPU_SECONDS + steps * STEP_CPU_SECONDS


@dataclass(slots=True)
class Pace:
    """Of rounds that take at most `share` of a CPU, but for those that would last longer than `interval_seconds`."""

    share: float
    interval_seconds: float
    _parts: int = PARTS_GUESSED
    _done: int = 0
    _began: float = field(default_factory=trio.current_time)
    _part_began: float = field(default_factory=trio.current_time)

    async def rest(self, znodes: int) -> None:
        """Waits after a part that had so many; the time that it took is part of the wait."""
        longest = self.interval_seconds / self._parts
        wanted = cpu_seconds(znodes) / self.share if self.share else longest
        self._done += 1
        taken = trio.current_time() - self._part_began
        await trio.sleep(max(PAUSE_SECONDS, min(wanted, longest) - taken))
        self._part_began = trio.current_time()

    async def next_round(self) -> None:
        """Waits after a round."""
        self._parts, self._done = max(1, self._done), 0
        round_seconds = min(ROUND_SECONDS_MIN, self.interval_seconds)
        await trio.sleep_until(self._began + round_seconds)
        self._began = self._part_began = trio.current_time()
