"""Looks for znodes that are not what the image says, while the tree is written: a reader of its own, in slices.

What it suspects is compared again by the follower, which alone knows what is on its way; so the verification never
holds up a change for longer than the slice that is being read.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import trio

from zkcompat.mirroring.quarantine import Quarantine
from zkcompat.mirroring.slices import Slice, visit_tree
from zkcompat.mirroring.tenure import Tenure
from zkcompat.repair import repair
from zkcompat.zookeeper.keeper import Keeper

log = logging.getLogger(__name__)

# Between two slices, so that a writer's packets find the connection free and the loop other things to do.
PAUSE_SECONDS = 0.005
# Between two passes that somebody asked for.
SOON_SECONDS = 1.0


@dataclass(slots=True)
class Verifier:
    tenure: Tenure
    keeper: Keeper
    quarantine: Quarantine
    interval_seconds: float
    _suspected: int = 0  # in this pass

    async def run(self) -> None:
        """Passes at the interval, and soon after somebody asks."""
        while True:
            with trio.move_on_after(self.interval_seconds):
                await self.tenure.verify_soon.wait()
                await trio.sleep(min(SOON_SECONDS, self.interval_seconds))
            await self.verify()

    async def verify(self) -> None:
        """One pass over the whole tree."""
        image = self.tenure.shown
        assert image is not None
        self._suspected = 0
        retried = [entry for entry in self.quarantine if entry.retries]
        await visit_tree(self.keeper, self.tenure.sections, image, self.quarantine, self._look)
        # What was read again, and, where nothing is left to write, all that was to be tried again.
        settled = [e.path for e in retried if e.action == "read" or self._suspected == 0]
        self.quarantine.settled(settled)
        self.tenure.status.verifications += 1
        self.tenure.status.tell()

    async def _look(self, piece: Slice) -> None:
        for path, znode in piece.found.items():
            if znode.refusal:
                self.quarantine.add(path, "read", znode.refusal)
        image = self.tenure.shown  # the newest: what was written meanwhile should look right
        assert image is not None
        session_id = self.keeper.session_id
        for name, found in piece.parts():
            await trio.lowlevel.checkpoint()
            wanted = repair(piece.section, name, found, image, session_id, self.tenure.is_spared)
            if any(not self.quarantine.holds(operation) for operation in wanted):
                self._suspected += 1
                self.tenure.suspect(piece.section, name)
        await trio.sleep(PAUSE_SECONDS)
