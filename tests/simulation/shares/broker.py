"""A broker of the simulation that serves share groups. In addition to the parts of `coordinators.broker`, the share
coordinator, its persister, the share partitions and dead-letter queues are real.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from tests.simulation.coordinators.broker import SETTINGS, CoordinatorBroker
from tests.simulation.partitions.broker import configured
from trimaran.node.config.server import ServerConfig

if TYPE_CHECKING:
    from tests.simulation.shares.world import SharesWorld

SHARE_SETTINGS: dict[str, object] = {
    **SETTINGS,
    "group.share.session.timeout.ms": 900,
    "group.share.min.session.timeout.ms": 300,
    "group.share.heartbeat.interval.ms": 150,
    "group.share.min.heartbeat.interval.ms": 50,
    "group.share.assignment.interval.ms": 100,
    "group.share.initialize.retry.interval.ms": 700,
    "share.coordinator.state.topic.prune.interval.ms": 400,
    "share.coordinator.cold.partition.snapshot.interval.ms": 900,
    "share.coordinator.load.buffer.size": 400,
    "share.coordinator.write.timeout.ms": 700,
}


class ShareBroker(CoordinatorBroker):
    world: SharesWorld

    def config(self) -> ServerConfig:
        rules = self.world.rules
        own = {
            "share.coordinator.snapshot.update.records.per.snapshot": rules.updates,
            "group.share.delivery.count.limit": rules.deliveries,
        }
        return configured(self.id, rules.fetch_bytes, **SHARE_SETTINGS, **own)

    def _compose(self) -> None:
        super()._compose()
        self.publishers = (*self.publishers, self.families.shares.coordinator)

    def tasks(self) -> tuple[Callable[[], Awaitable[object]], ...]:
        return (*super().tasks(), self.families.shares.run)
