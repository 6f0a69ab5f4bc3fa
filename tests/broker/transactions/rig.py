"""A coordinator of transactions over a real log; the test controls the metadata, the commits and the markers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

from tests.broker.calls import finished
from tests.broker.coordination.leader import Leader, open_log
from tests.cluster.data_side import cluster_image, partition, registration, topic, topics_image
from trimaran.broker.transactions.coordinator import TransactionCoordinator
from trimaran.broker.transactions.limits import TransactionLimits
from trimaran.broker.transactions.ports import TRANSACTION_TOPIC
from trimaran.broker.transactions.transaction import Transaction
from trimaran.node.replicated.state_machine import Producer
from trimaran.quorum.metadata.image import MetadataImage, TopicImage
from trimaran.wire.identity import TopicPartition

HERE, THERE, ELSEWHERE = 11, 12, 13
NAME = "x"


class Metadata:
    """The known partitions, and the requests that wait for more."""

    def __init__(self, *topics: TopicImage, brokers: tuple[int, ...] = (HERE,)) -> None:
        self.image = MetadataImage()
        self._changed = trio.Event()
        self.set(*topics, brokers=brokers)

    def set(self, *topics: TopicImage, brokers: tuple[int, ...] = (HERE,), **fields: Any) -> None:
        registered = cluster_image(*(registration(broker, **fields) for broker in brokers))
        self.image = MetadataImage(topics=topics_image(*topics), cluster=registered)
        self._changed.set()
        self._changed = trio.Event()

    async def wait_for(self, predicate: Callable[[MetadataImage], bool]) -> MetadataImage:
        while not predicate(self.image):
            await self._changed.wait()
        return self.image


class ProducerIds:
    """Counts up; `meanwhile` runs while an id is fetched."""

    def __init__(self) -> None:
        self.taken = 0
        self.meanwhile: list[Callable[[], object]] = []

    async def take(self) -> int:
        await trio.lowlevel.checkpoint()
        self.taken += 1
        if self.meanwhile:
            self.meanwhile.pop(0)()
        return 1000 + self.taken


class Markers:
    """Markers are written when the test permits it; until then a transaction stays in its Prepare state."""

    def __init__(self) -> None:
        self.goes_on = trio.Event()

    async def finish(self, epoch: Any, transactional_id: str) -> None:
        await self.goes_on.wait()
        decided = epoch.active().decided(transactional_id)
        if decided is not None:
            epoch.decide(lambda shard, at: shard.complete(transactional_id, decided, at))


class Rig:
    def __init__(self, directory: Path, limits: TransactionLimits) -> None:
        self.metadata = Metadata(
            topic(TRANSACTION_TOPIC, partition((HERE,))),
            topic("t", partition((HERE,)), partition((HERE,))),
        )
        self.producer_ids = ProducerIds()
        self.markers = Markers()
        writer: Any = self.markers
        self.coordinator = TransactionCoordinator(limits, self.metadata, self.producer_ids, writer)
        self.leader = Leader(open_log(directory / f"{TRANSACTION_TOPIC}-0"), 0)

    def lead(self) -> None:
        self.coordinator.runtime.began(0, self.leader)

    def resign(self) -> None:
        self.leader.high_watermark.close()
        self.coordinator.runtime.ended(0, self.leader.epoch)

    @property
    def shard(self) -> Any:
        return self.coordinator.epoch_of(NAME).active()

    @property
    def state(self) -> Transaction:
        return self.shard.transactions[NAME]

    async def init(self, told: Producer | None = None, timeout_ms: int = 60_000) -> Producer:
        return await finished(self.coordinator.initializing(NAME, timeout_ms, told))

    async def begin(self, *indexes: int) -> Producer:
        """Returns a producer with an open transaction, to which these partitions of `t` were added."""
        producer = await self.init()
        await self.add(producer, *indexes or (0,))
        return producer

    async def add(self, producer: Producer, *indexes: int) -> None:
        partitions = [TopicPartition("t", index) for index in indexes]
        pending = await finished(self.coordinator.adding_partitions(NAME, producer, partitions, 2))
        await pending.wait()

    async def end(self, producer: Producer, *, is_commit: bool = True) -> Transaction:
        ending = self.coordinator.ending(NAME, producer, is_commit=is_commit, client_version=2)
        return await finished(ending)


@asynccontextmanager
async def open_rig(
    directory: Path, *, leads: bool = True, limits: TransactionLimits | None = None
) -> AsyncIterator[Rig]:
    rig = Rig(directory, limits or TransactionLimits())
    async with trio.open_nursery() as nursery:
        await nursery.start(rig.coordinator.runtime.run)
        try:
            if leads:
                rig.lead()
                await rig.coordinator.epoch_of(NAME).wait_loaded()
            yield rig
        finally:
            nursery.cancel_scope.cancel()
            rig.leader.log.close()
