"""What a mirror tells about itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import trio

from trimaran.wire.transport.scheduling.events import Notifier


@dataclass(slots=True)
class MirrorStatus:
    """Counters only grow. `state` is one of starting, connecting, standby, comparing, in step, waiting."""

    state: str = "starting"
    published_offset: int = -1
    controller_epoch: int = -1
    writes: int = 0
    transactions: int = 0
    claims: int = 0
    comparisons: int = 0
    verifications: int = 0
    repairs: int = 0
    last_problem: str = ""
    _changed: Notifier = field(default_factory=Notifier)

    def tell(self, state: str = "") -> None:
        """Wakes those who wait for the status."""
        self.state = state or self.state
        self._changed.notify_all()

    async def wait_for(self, wanted: Callable[[MirrorStatus], bool]) -> None:
        """Returns when `wanted` is true."""
        await trio.lowlevel.checkpoint()
        while not wanted(self):
            await self._changed.wait()
