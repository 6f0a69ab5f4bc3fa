"""A broker of the simulation with both coordinators. The real parts are both coordinators with their runtimes, shards
and loaders, the writer of markers, the verification of transactions, producer ids, and all request handlers, which
receive bytes. Channels between brokers are simulated.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import trio

from tests.cluster.data_side import replaced
from tests.simulation.coordinators.channels import SimChannels
from tests.simulation.partitions.broker import SimBroker, configured
from trimaran.broker.background.log_cleaner import CleanerSettings, LogCleaner
from trimaran.broker.channels.broker_channels import Channels
from trimaran.broker.handlers.registry import broker_registry
from trimaran.log.compaction.cleaning import CleanerLimits
from trimaran.log.compaction.offset_map import SLOT_BYTES
from trimaran.node.config.server import ServerConfig
from trimaran.wire.errors import ErrorCode

if TYPE_CHECKING:
    from tests.simulation.coordinators.world import CoordinatorWorld

# Broker settings with short times, so that more happens in a run, and with small load buffers.
SETTINGS: dict[str, object] = {
    "request.timeout.ms": 900,
    "transaction.max.timeout.ms": 5000,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 150,
    "transaction.state.log.load.buffer.size": 400,
    "transactional.id.expiration.ms": 3_600_000,
    "offsets.load.buffer.size": 400,
    "offsets.commit.timeout.ms": 700,
    "group.min.session.timeout.ms": 300,
    "group.initial.rebalance.delay.ms": 50,
    "group.consumer.min.session.timeout.ms": 300,
    "group.consumer.session.timeout.ms": 900,
    "group.consumer.min.heartbeat.interval.ms": 50,
    "group.consumer.heartbeat.interval.ms": 200,
}


@cache
def _registry() -> Any:
    return broker_registry()


class _AllCreated:
    """A topic creation that reports every topic as existing, although this broker may not know it yet."""

    async def create(self, names: Sequence[str]) -> dict[str, ErrorCode]:
        return dict.fromkeys(names, ErrorCode.TOPIC_ALREADY_EXISTS)


class CoordinatorBroker(SimBroker):
    world: CoordinatorWorld

    def config(self) -> ServerConfig:
        return configured(self.id, self.world.rules.fetch_bytes, **SETTINGS)

    @property
    def registry(self) -> Any:
        return _registry()

    def _compose(self) -> None:
        super()._compose()
        self.groups, self.transacting = self.families.groups, self.families.transactions
        self.publishers = (self.publisher, self.groups)
        self.contexts = replaced(self.contexts, topic_creation=_AllCreated())

    def open_channels(self, _purpose: str) -> Channels:
        return SimChannels(self)

    def tasks(self) -> tuple[Callable[[], Awaitable[object]], ...]:
        tasks = (*super().tasks(), self.groups.runtime.run, self.transacting.run)
        return (*tasks, self._compact) if self.world.rules.compact_every else tasks

    async def _compact(self) -> None:
        """Compacts logs repeatedly, but no longer after an unclean election, because the checker would not know which
        records may be missing.
        """
        world = self.world
        limits = CleanerLimits(world.rules.map_slots * SLOT_BYTES)
        settings = CleanerSettings(limits=limits)
        cleaner = LogCleaner(self.partitions, self.directories, lambda: settings, world.now_ms)
        while True:
            await trio.sleep(world.prng.expovariate(1 / world.rules.compact_every))
            if not world.checker.is_void and await cleaner.clean_dirtiest():
                world.happened["compacted"] += 1
                world.checker.compacted(self)
