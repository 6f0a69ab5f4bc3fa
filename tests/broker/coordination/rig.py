"""A runtime of counters over real logs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.broker.coordination.counters import TOPIC, CounterShard, CountSerde
from tests.broker.coordination.leader import Leader, open_log
from trimaran.broker.coordination.runtime import CoordinatorRuntime
from trimaran.broker.coordination.shard import CoordinatorSpec
from trimaran.broker.coordination.shard_epoch import ShardEpoch, ShardState
from trimaran.log.batches.batch import BatchView, iter_batches
from trimaran.log.producers.marker import EndMarker
from trimaran.node.replicated.state_machine import Producer
from trimaran.wire.errors import ErrorCode, KafkaError

PRODUCER = Producer(7, 0)


def code_of(act: Callable[[], object]) -> ErrorCode:
    """Returns the error code of the refusal."""
    with pytest.raises(KafkaError) as caught:
        act()
    return caught.value.code


class Rig:
    def __init__(self, directory: Path, **spec: Any) -> None:
        self.directory = directory
        self.leaders: dict[int, Leader] = {}
        self.runtime = CoordinatorRuntime(
            CoordinatorSpec(TOPIC, CounterShard, CountSerde(), **spec)
        )

    # -- leadership

    def lead(self, epoch: int = 0, index: int = 0) -> Leader:
        known = self.leaders.get(index)
        log = open_log(self.directory / f"{TOPIC}-{index}") if known is None else known.log
        leader = self.leaders[index] = Leader(log, epoch)
        self.runtime.began(index, leader)
        return leader

    def resign(self, index: int = 0) -> None:
        leader = self.leaders[index]
        leader.high_watermark.close()
        self.runtime.ended(index, leader.epoch)

    def epoch(self, index: int = 0) -> ShardEpoch[CounterShard, Any]:
        return self.runtime.epoch_of(index)

    async def loaded(self, index: int = 0) -> CounterShard:
        await self.epoch(index)._state.wait_not(ShardState.LOADING)
        return self.epoch(index).active()

    async def serve(self, epoch: int = 0, index: int = 0) -> tuple[Leader, CounterShard]:
        return self.lead(epoch, index), await self.loaded(index)

    async def reload(self, index: int = 0) -> CounterShard:
        """Begins another epoch, which loads what is in the log."""
        self.resign(index)
        self.lead(self.leaders[index].epoch + 1, index)
        return await self.loaded(index)

    # -- in place of the handlers

    def add(self, name: str, amount: int = 1, producer: Producer | None = None, index: int = 0):
        epoch = self.epoch(index)
        return epoch.submit(epoch.active().add(name, amount)._replace(producer=producer))

    def mark(self, *, is_commit: bool, epoch: int = 0, version: int = 0) -> None:
        producer, marker = Producer(PRODUCER.id, epoch), EndMarker(is_commit, 0)
        self.runtime.complete_transaction(0, producer, marker, version)

    def batches(self, index: int = 0) -> list[BatchView]:
        log = self.leaders[index].log
        return list(iter_batches(log.read_bytes(0, 1 << 24, upto_offset=log.log_end_offset)))


@asynccontextmanager
async def open_rig(directory: Path, **spec: Any) -> AsyncIterator[Rig]:
    rig = Rig(directory, **spec)
    async with trio.open_nursery() as nursery:
        await nursery.start(rig.runtime.run)
        try:
            yield rig
        finally:
            nursery.cancel_scope.cancel()
            for leader in rig.leaders.values():
                leader.log.close()
