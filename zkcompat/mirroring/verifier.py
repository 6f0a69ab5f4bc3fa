"""Searches the tree for znodes that differ from the image, while the tree is written: in rounds, slice by slice.

The follower compares its suspects again, since only the follower knows which writes are in flight. So the verification
delays a change by at most the slice that is being read.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import trio

from trimaran.zkcompat.comparing.differences import repair
from trimaran.zkcompat.comparing.quarantine import Quarantine
from trimaran.zkcompat.comparing.tree_parts import TreePart, visit_tree
from trimaran.zkcompat.mirroring.tenure import Tenure
from trimaran.zkcompat.sections.brokers import BrokerSection
from trimaran.zkcompat.znodes.broker_info import BROKER_IDS
from trimaran.zkcompat.zookeeper.errors import PathRefusedError
from trimaran.zkcompat.zookeeper.keeper import Keeper

# The pause between two parts, which leaves connection and event loop to other work.
PAUSE_SECONDS = 0.005
# The least time from the beginning of one round to the next.
ROUND_SECONDS_MIN = 1.0
# The assumed number of parts before the first round ends.
PARTS_GUESSED = 100
# The cost of reading and comparing on a CPU of 2024: for a part, and for each znode of it. Measured on trees of up to
# 3,000.
PART_CPU_SECONDS = 1e-3
ZNODE_CPU_SECONDS = 16e-6
# The cost of a step of a transaction. A transaction is sent again without each refused step.
STEP_CPU_SECONDS = 12e-6


def cpu_seconds(znodes: int, steps: int = 0) -> float:
    """Estimates the cost of reading and comparing a part with `znodes`, and of sending `steps` to ZooKeeper."""
    return PART_CPU_SECONDS + znodes * ZNODE_CPU_SECONDS + steps * STEP_CPU_SECONDS


@dataclass(slots=True)
class VerificationPace:
    """The pace of rounds: they take at most `share` of a CPU, except if they would last longer than `interval_seconds`.

    A small tree is verified every second or two, a large one once in the interval. The cost of work is estimated, not
    measured: a clock of CPU time also counts the other work of the process and the load of the machine, and would slow
    a round down most if there is much to find.
    """

    share: float
    interval_seconds: float
    _parts: int = PARTS_GUESSED
    _done: int = 0
    _began: float = field(default_factory=trio.current_time)
    _part_began: float = field(default_factory=trio.current_time)

    async def rest(self, znodes: int) -> None:
        """Waits after a part with `znodes`; the time that the part took counts."""
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


@dataclass(slots=True)
class TreeVerifier:
    tenure: Tenure
    keeper: Keeper
    quarantine: Quarantine
    pace: VerificationPace

    async def run(self) -> None:
        """Verifies the tree in rounds, at `pace`, until cancelled."""
        await self.pace.rest(0)
        while True:
            await self._round(self.pace.rest)
            await self.pace.next_round()

    async def verify(self) -> None:
        """Verifies the whole tree once, now."""

        async def pause(_znodes: int) -> None:
            await trio.sleep(PAUSE_SECONDS)

        await self._round(pause)

    async def _round(self, rest: Callable[[int], Awaitable[None]]) -> None:
        image = self.tenure.shown
        assert image is not None
        retried = [entry for entry in self.quarantine if entry.retries]
        suspected = 0

        async def compare(piece: TreePart) -> None:
            nonlocal suspected
            suspected += await self._compare(piece)
            await rest(len(piece.found))

        await visit_tree(self.keeper, self.tenure.sections, image, self.quarantine, compare)
        # Clears the refusals of reads that succeeded; if there is nothing to write, all refusals that were due for a
        # retry.
        settled = [e.path for e in retried if e.action == "read" or suspected == 0]
        self.quarantine.settled(settled)
        self.tenure.status.verifications += 1
        self.tenure.status.tell()

    async def _compare(self, piece: TreePart) -> int:
        """Returns the number of entities that differ."""
        for path, znode in piece.found.items():
            if znode.refusal:
                self.quarantine.add(path, "read", znode.refusal)
        # The comparison uses the newest image, so that writes since the reading are not suspected.
        image = self.tenure.shown
        assert image is not None
        session_id = self.keeper.session_id
        suspected = 0
        for name, found in piece.parts():
            await trio.lowlevel.checkpoint()
            wanted = repair(piece.section, name, found, image, session_id, self.tenure.is_spared)
            if any(not self.quarantine.holds(operation) for operation in wanted):
                suspected += 1
                self.tenure.suspect(piece.section, name)
        return suspected


# The pause: a client that keeps deleting znodes must not keep the mirror busy.
WATCH_PAUSE_SECONDS = 0.1
# The interval if no watch can be set: the parent is gone or locked until the verification or its owner repairs it.
WATCH_POLL_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class BrokerWatch:
    tenure: Tenure

    async def run(self) -> None:
        """Marks brokers whose znodes are created or deleted as suspects while the tenure lasts."""
        while True:
            changed = trio.Event()
            try:
                found = set(await self.tenure.keeper.children(BROKER_IDS, changed.set))
            except PathRefusedError:
                await trio.sleep(WATCH_POLL_SECONDS)
                continue
            image = self.tenure.shown
            assert image is not None
            for name in found.symmetric_difference(BrokerSection().names(image)):
                self.tenure.recheck(f"{BROKER_IDS}/{name}")
            await trio.sleep(WATCH_PAUSE_SECONDS)
            with trio.move_on_after(WATCH_POLL_SECONDS):
                await changed.wait()
