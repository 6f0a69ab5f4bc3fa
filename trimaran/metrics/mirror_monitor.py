"""Monitoring of a mirror in its own process, from the start of the process, before the mirror exists."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from trimaran.metrics.families import Families, families
from trimaran.metrics.loop_times import LoopTimes
from trimaran.metrics.mirror import mirror_metrics
from trimaran.metrics.process import LOOP_METRICS
from trimaran.metrics.serving import serving_metrics
from trimaran.wire.identity import Address
from trimaran.wire.transport.scheduling.loop_turns import loop_turns

if TYPE_CHECKING:
    from trimaran.zkcompat.mirroring.mirror import Mirror


@asynccontextmanager
async def mirror_with_metrics(address: Address) -> AsyncIterator[MirrorMonitor]:
    """Serves the metrics of a mirror within the block.

    Raises OSError for `address`.
    """
    monitor = MirrorMonitor()
    with monitor.loop_times.counting():
        async with serving_metrics(address, monitor) as server:
            monitor.address = server.address
            yield monitor


class MirrorMonitor:
    """A `Monitor` of a mirror, which is created only after its quorum has been found. A mirror on standby is as ready
    as one that leads. `address` is the address of the metrics.
    """

    address: Address

    def __init__(self) -> None:
        self.loop_times = LoopTimes(loop_turns())
        self._mirror: Mirror | None = None

    def __call__(self, mirror: Mirror) -> None:
        """Sets the mirror, which exists from now on."""
        self._mirror = mirror

    def families(self) -> Families:
        yield from families(LOOP_METRICS, self.loop_times)
        if self._mirror is not None:
            yield from mirror_metrics(self._mirror)

    def why_not_ready(self) -> list[str]:
        if self._mirror is None:
            return ["the quorum was not found yet"]
        state = self._mirror.status.state
        return [] if state in ("in step", "standby") else [f"the mirror is {state}"]
