"""Looks for znodes that are not what the image says, while the tree is written: a reader of its own, in slices.

What it suspects is compared again by the follower, which alone knows what is on its way; so the verification never
holds up a change for longer than the slice that is being read.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import trio

from trimaran.zkcompat.mirroring.pace import PAUSE_SECONDS, Pace
from trimaran.zkcompat.mirroring.quarantine import Quarantine
from trimaran.zkcompat.mirroring.slices import Slice, visit_tree
from trimaran.zkcompat.mirroring.tenure import Tenure
from trimaran.zkcompat.repair import repair
from trimaran.zkcompat.zookeeper.keeper import Keeper


@dataclass(slots=True)
class Verifier:
    tenure: Tenure
    keeper: Keeper
    quarantine: Quarantine
    pace: Pace

    async def run(self) -> None:
        """Round after round, at the pace."""
        await self.pace.rest(0)
        while True:
            await self._round(self.pace.rest)
            await self.pace.next_round()

    async def verify(self) -> None:
        """One pass over the whole tree, now."""

        async def pause(_znodes: int) -> None:
            await trio.sleep(PAUSE_SECONDS)

        await self._round(pause)

    async def _round(self, rest: Callable[[int], Awaitable[None]]) -> None:
        image = self.tenure.shown
        assert image is not None
        retried = [entry for entry in self.quarantine if entry.retries]
        suspected = 0

        async def look(piece: Slice) -> None:
            nonlocal suspected
            suspected += await self._look(piece)
            await rest(len(piece.found))

        await visit_tree(self.keeper, self.tenure.sections, image, self.quarantine, look)
        # What was read again, and, where nothing is left to write, all that was to be tried again.
        settled = [e.path for e in retried if e.action == "read" or suspected == 0]
        self.quarantine.settled(settled)
        self.tenure.status.verifications += 1
        self.tenure.status.tell()

    async def _look(self, piece: Slice) -> int:
        """How many entities are not as they should be."""
        for path, znode in piece.found.items():
            if znode.refusal:
                self.quarantine.add(path, "read", znode.refusal)
        image = self.tenure.shown  # the newest: what was written meanwhile should look right
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
