"""The states of share partitions in memory, for tests of group coordinators."""

from __future__ import annotations

from collections.abc import Sequence

import trio

from trimaran.broker.share_state.states import ShareState, ShareSummary, StateBatch
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import LeaderEpoch, Offset, SharePartitionKey, StateEpoch


class StatesInMemory:
    """`ShareStates` with a checkpoint in each request. A request for a key in `failing` fails with its code."""

    def __init__(self) -> None:
        self.stored: dict[SharePartitionKey, ShareSummary] = {}
        self.failing: dict[SharePartitionKey, ErrorCode] = {}
        self.running = self.most = 0

    async def _attempt(self, key: SharePartitionKey) -> None:
        self.running += 1
        self.most = max(self.most, self.running)
        await trio.lowlevel.checkpoint()
        self.running -= 1
        if key in self.failing:
            raise KafkaError(self.failing[key])

    async def initialize(
        self, key: SharePartitionKey, state_epoch: StateEpoch, start_offset: Offset | None
    ) -> None:
        await self._attempt(key)
        self.stored[key] = ShareSummary(state_epoch, LeaderEpoch(0), start_offset, None)

    async def read(self, key: SharePartitionKey, leader_epoch: LeaderEpoch) -> ShareState:
        return ShareState(await self.summary(key, leader_epoch), ())

    async def summary(self, key: SharePartitionKey, leader_epoch: LeaderEpoch) -> ShareSummary:
        await self._attempt(key)
        return self.stored.get(key, ShareSummary(StateEpoch(0), leader_epoch, None, None))

    async def write(
        self, key: SharePartitionKey, summary: ShareSummary, batches: Sequence[StateBatch]
    ) -> None:
        await self._attempt(key)
        self.stored[key] = summary

    async def delete(self, key: SharePartitionKey) -> None:
        await self._attempt(key)
        self.stored.pop(key, None)
