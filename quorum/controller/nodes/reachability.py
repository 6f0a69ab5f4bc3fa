"""Determines the brokers that this controller can reach; only refused connections of these brokers are evidence.

A refusal proves that a process has ended only if the address accepted our connections before: behind NAT or in a
container, the advertised address may never have been reachable. Each controller, active or not, therefore probes every
incarnation of a broker once, and repeats the probe from time to time until the incarnation answers. A heartbeat after a
refusal discredits the addresses permanently; then only the lease decides on that incarnation. Kafka has no equivalent;
its controller uses only leases.
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

# The interval of probes until an incarnation answers for the first time. A refusal costs each side one packet.
PROBE_AGAIN_SECONDS = 10.0
# The number of concurrent probes: a probe waits a second for a silent broker, and a cluster has a few hundred brokers.
PROBES_AT_ONCE = 10


@dataclass(slots=True)
class _Known:
    """The probe results of one incarnation; `refused`: all of its addresses refused the last probe."""

    epoch: BrokerEpoch
    answered: frozenset[Address] = frozenset()
    refused: bool = False
    disproved: bool = False


class Reachability:
    """A publisher of the committed image that probes brokers; it lives as long as the process, across all epochs of its
    leadership.
    """

    def __init__(self) -> None:
        self._known: dict[BrokerId, _Known] = {}
        self._wanted = AutoResetEvent()

    def publish(self, delta: MetadataDelta, image: MetadataImage, _manifest: object) -> None:
        """Forgets removed brokers, and starts probing new incarnations."""
        brokers = image.cluster.brokers
        if brokers is delta.image.cluster.brokers:
            return
        for broker_id in [known_id for known_id in self._known if known_id not in brokers]:
            del self._known[broker_id]
        self._wanted.set()

    async def run(self, image: Callable[[], MetadataImage]) -> None:
        """Probes brokers that have not answered yet, until cancelled."""
        while True:
            with trio.move_on_after(PROBE_AGAIN_SECONDS):
                await self._wanted.wait()
            limit = trio.CapacityLimiter(PROBES_AT_ONCE)
            async with trio.open_nursery() as nursery:
                for broker in image().cluster.brokers.values():
                    known = self._of(broker)
                    if not known.answered and not known.disproved:
                        nursery.start_soon(self._probe_once, broker, limit)

    async def _probe_once(self, broker: BrokerRegistration, limit: trio.CapacityLimiter) -> None:
        async with limit:
            result = await liveness.probe(broker.listeners)
        self._of(broker).answered |= result.answered

    async def has_ended(self, broker: BrokerRegistration) -> bool:
        """Probes the broker and returns whether every endpoint refuses, including an address that answered before."""
        result = await liveness.probe(broker.listeners)
        known = self._of(broker)
        known.answered |= result.answered
        known.refused = result.is_down
        return result.is_down and not known.disproved and bool(known.answered & result.refused)

    def note_heartbeat(self, broker_id: BrokerId, broker_epoch: BrokerEpoch) -> None:
        """Notes a heartbeat of the broker: if its addresses refuse, their refusal is no evidence about its process."""
        known = self._known.get(broker_id)
        if known is not None and known.epoch == broker_epoch and known.refused:
            known.disproved = True

    def _of(self, broker: BrokerRegistration) -> _Known:
        known = self._known.get(broker.id)
        if known is None or known.epoch != broker.epoch:
            known = self._known[broker.id] = _Known(broker.epoch)
        return known
