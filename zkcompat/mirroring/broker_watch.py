"""Sees at once when somebody deletes the znode of a broker, or makes one: to clients that is a death, or a birth."""

from __future__ import annotations

from dataclasses import dataclass

import trio

from trimaran.zkcompat.mirroring.tenure import Tenure
from trimaran.zkcompat.sections.brokers import Brokers
from trimaran.zkcompat.znodes.broker_info import BROKER_IDS
from trimaran.zkcompat.zookeeper.errors import PathRefusedError

# Somebody who goes on deleting must not keep the mirror busy.
PAUSE_SECONDS = 0.1
# Where no watch can be: the parent is gone, or locked, until the verification or its owner mends that.
POLL_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class BrokerWatch:
    tenure: Tenure

    async def run(self) -> None:
        """Has the writer compare the brokers that come and go, as long as the tenure lasts."""
        while True:
            changed = trio.Event()
            try:
                found = set(await self.tenure.keeper.children(BROKER_IDS, changed.set))
            except PathRefusedError:
                await trio.sleep(POLL_SECONDS)
                continue
            image = self.tenure.shown
            assert image is not None
            for name in found.symmetric_difference(Brokers().names(image)):
                self.tenure.recheck(f"{BROKER_IDS}/{name}")
            await trio.sleep(PAUSE_SECONDS)
            with trio.move_on_after(POLL_SECONDS):
                await changed.wait()
