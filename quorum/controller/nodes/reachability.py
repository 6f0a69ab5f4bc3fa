"""Which brokers this controller can reach, so that a refused connection says something about them.

A refusal proves that a process has ended only where it answered us before: behind NAT, or in a container, the address
that a broker advertises may never have been open to us. So each controller, active or not, looks at every incarnation
of a broker once, and from time to time at those that have not answered. A heartbeat after the addresses have refused
disproves them for good: its lease alone decides on that incarnation. Source: none in Kafka, since its controller knows
leases alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import trio

from trimaran.quorum.controller.nodes import liveness
from trimaran.quorum.metadata.delta import MetadataDelta
from trimaran.quorum.metadata.image import BrokerRegistration, MetadataImage
from trimaran.wire.identity import Address, BrokerEpoch, BrokerId
from trimaran.wire.transport.scheduling.events import AutoResetEvent

# Interval of probes until an incarnation has answered for the first time. A refusal costs both sides a packet.
LOOK_AGAIN_SECONDS = 10.0
# One that is silent is waited for a second; a cluster has some hundred brokers.
LOOKS_AT_ONCE = 10


@dataclass(slots=True)
class _Known:
    """One incarnation; `refused`: all of its addresses did at the last probe."""

    epoch: BrokerEpoch
    answered: frozenset[Address] = frozenset()
    refused: bool = False
    disproved: bool = False


class Reachability:
    """A publisher of the committed image; lives as long as the process, through all epochs that it leads."""

    def __init__(self) -> None:
        self._known: dict[BrokerId, _Known] = {}
        self._wanted = AutoResetEvent()

    def publish(self, delta: MetadataDelta, image: MetadataImage, _manifest: object) -> None:
        """Forgets brokers that are gone, and has new incarnations looked at."""
        brokers = image.cluster.brokers
        if brokers is delta.image.cluster.brokers:
            return
        for broker_id in [known_id for known_id in self._known if known_id not in brokers]:
            del self._known[broker_id]
        self._wanted.set()

    async def run(self, image: Callable[[], MetadataImage]) -> None:
        """Looks at brokers of which nothing is known, until cancelled."""
        while True:
            with trio.move_on_after(LOOK_AGAIN_SECONDS):
                await self._wanted.wait()
            limit = trio.CapacityLimiter(LOOKS_AT_ONCE)
            async with trio.open_nursery() as nursery:
                for broker in image().cluster.brokers.values():
                    known = self._of(broker)
                    if not known.answered and not known.disproved:
                        nursery.start_soon(self._meet, broker, limit)

    async def _meet(self, broker: BrokerRegistration, limit: trio.CapacityLimiter) -> None:
        async with limit:
            look = await liveness.look_at(broker.listeners)
        self._of(broker).answered |= look.answered

    async def has_ended(self, broker: BrokerRegistration) -> bool:
        """Looks at a broker: whether every endpoint refuses, one of them an address that answered us before."""
        look = await liveness.look_at(broker.listeners)
        known = self._of(broker)
        known.answered |= look.answered
        known.refused = look.is_down
        return look.is_down and not known.disproved and bool(known.answered & look.refused)

    def heard(self, broker_id: BrokerId, broker_epoch: BrokerEpoch) -> None:
        """The broker has sent a heartbeat: that its addresses refuse is no news of its process."""
        known = self._known.get(broker_id)
        if known is not None and known.epoch == broker_epoch and known.refused:
            known.disproved = True

    def _of(self, broker: BrokerRegistration) -> _Known:
        known = self._known.get(broker.id)
        if known is None or known.epoch != broker.epoch:
            known = self._known[broker.id] = _Known(broker.epoch)
        return known
