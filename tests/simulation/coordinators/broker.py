"""A broker of the simulation with both coordinators, composed as `trimaran.broker.process.composition` does it.

Real are both coordinators with their runtimes, shards and loaders, the writer of markers, the verification of
transactions, producer ids, and all request handlers, which get bytes. Channels between brokers are simulated.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, cast

import trio

from tests.cluster.data_side import config
from tests.simulation.coordinators.channels import SimChannels
from tests.simulation.partitions.broker import SimBroker
from trimaran.broker.background.log_cleaner import CleanerSettings, LogCleaner
from trimaran.broker.groups.consumer.settings import ConfiguredGroups
from trimaran.broker.groups.coordinator import GroupCoordinator
from trimaran.broker.groups.limits import GroupLimits
from trimaran.broker.handlers.registry import broker_registry
from trimaran.broker.metadata.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from trimaran.broker.process.transactions import transactions
from trimaran.broker.producing.producer_ids import ProducerIds
from trimaran.broker.transactions.marking import Marking
from trimaran.log.compaction.cleaning import CleanerLimits
from trimaran.log.compaction.offset_map import SLOT_BYTES
from trimaran.node.config.server import ServerConfig
from trimaran.wire.errors import ErrorCode

if TYPE_CHECKING:
    from tests.simulation.coordinators.world import CoordinatorWorld

# As in a broker's configuration, but shorter, so that more happens in a run; pieces of logs are small.
SETTINGS = {
    "controller.quorum.voters": "100@127.0.0.1:1",
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
def _config(node_id: int) -> ServerConfig:
    named = {"node.id": node_id, **SETTINGS}
    return config(**{key: str(value) for key, value in named.items()})


@cache
def _registry() -> Any:
    return broker_registry()


class _AllCreated:
    """The topics are there, though this broker may not have heard of them."""

    async def create(self, names: Sequence[str]) -> dict[str, ErrorCode]:
        return dict.fromkeys(names, ErrorCode.TOPIC_ALREADY_EXISTS)


class CoordinatorBroker(SimBroker):
    world: CoordinatorWorld

    def config(self) -> ServerConfig:
        return _config(self.id)

    @property
    def registry(self) -> Any:
        return _registry()

    def _compose(self) -> None:
        super()._compose()
        settings, metadata, life = self.config(), self.metadata, self.life
        self.groups = GroupCoordinator(
            GroupLimits.of(settings),
            metadata,
            ConfiguredGroups(settings, lambda: metadata.image.configs).of,
        )
        self.partitions.listen(CONSUMER_OFFSETS, self.groups.runtime)
        producer_ids = ProducerIds(self.channel, self.id, lambda: self._epoch_of(life))
        channels: Any = SimChannels(self)
        marking = Marking(self.partitions, self.groups.complete_transaction, self.context.now_ms)
        parts = transactions(
            settings,
            metadata,
            marking,
            producer_ids,
            lambda _purpose: channels,
            lambda: True,
        )
        self.partitions.listen(TRANSACTION_STATE, parts.coordinator.runtime)
        self.transacting = parts
        self.publishers = (self.publisher, self.groups)
        self.context = replace(
            self.context,
            producer_ids=producer_ids,
            groups=self.groups,
            transactions=parts.coordinator,
            verifier=parts.verifier,
            topic_creation=cast(Any, _AllCreated()),
            kraft_version=lambda: 1,
        )

    def tasks(self) -> tuple[Callable[[], Awaitable[object]], ...]:
        tasks = (*super().tasks(), self.groups.runtime.run, self.transacting.run)
        return (*tasks, self._compact) if self.world.rules.compact_every else tasks

    async def _compact(self) -> None:
        """After an unclean election it would be unknown which records may be missing."""
        world = self.world
        limits = CleanerLimits(world.rules.map_slots * SLOT_BYTES)
        settings = CleanerSettings(limits=limits)
        cleaner = LogCleaner(self.partitions, self.directories, lambda: settings, world.now_ms)
        while True:
            await trio.sleep(world.prng.expovariate(1 / world.rules.compact_every))
            if not world.checker.is_void and await cleaner.clean_dirtiest():
                world.happened["compacted"] += 1
                world.checker.compacted(self)
