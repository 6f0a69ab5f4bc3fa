"""The shards of one internal topic on this broker, with successive epochs for each partition that it leads.

One runtime class serves all coordinators (groups, transactions, shares); `CoordinatorSpec` has their differences.
Source: Kafka's `CoordinatorRuntime`. Intentional difference: no threads, since all shards share the event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Any, Generic, TypeVar

import trio

from trimaran.broker import events
from trimaran.broker.coordination.ports import CoordinatorPartition
from trimaran.broker.coordination.shard import CoordinatorShard, CoordinatorSpec
from trimaran.broker.coordination.shard_epoch import ShardEpoch, ShardState
from trimaran.log.partitions.partition_log import AppendInfo
from trimaran.log.producers.marker import EndMarker
from trimaran.node.replicated.state_machine import Producer
from trimaran.node.runtime.latest import Latest
from trimaran.wire.client.backoff import ExponentialBackoff
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import LeaderEpoch
from trimaran.wire.java_hash import java_hash
from trimaran.wire.transport.scheduling.events import AutoResetEvent

S = TypeVar("S", bound=CoordinatorShard[Any])
R = TypeVar("R")

# The delays before a failed shard is loaded again. A load reads the whole log, so a shard that keeps failing is loaded
# less and less often: if a load takes a minute, it uses at most half of a thread's time.
RELOAD_SECONDS = 1.0
RELOAD_SECONDS_MAX = 60.0

log = logging.getLogger(__name__)


class CoordinatorRuntime(Generic[S, R]):
    """A `LeadershipListener` of the coordinator's topic; `run` must be running for shards to load."""

    def __init__(self, spec: CoordinatorSpec[S, R]) -> None:
        self.spec = spec
        self._epochs: dict[int, ShardEpoch[S, R]] = {}
        # One entry and one task per partition that this broker ever led: at most the partitions of the topic.
        self._current: dict[int, Latest[ShardEpoch[S, R] | None]] = {}
        self._new: list[Latest[ShardEpoch[S, R] | None]] = []
        self._begun = AutoResetEvent()
        # False if no shard can be loading: then no search is needed.
        self._may_load = False

    # -- leadership

    def began(self, partition_index: int, leader: CoordinatorPartition) -> None:
        """Begins to load the shard of a partition."""
        epoch = ShardEpoch(self.spec, partition_index, leader)
        self._epochs[partition_index] = epoch
        self._may_load = True
        current = self._current.get(partition_index)
        if current is not None:
            current.set(epoch)
            return
        current = self._current[partition_index] = Latest[ShardEpoch[S, R] | None](epoch)
        self._new.append(current)
        self._begun.set()

    def ended(self, partition_index: int, leader_epoch: LeaderEpoch) -> None:
        """Stops serving the shard of a partition immediately."""
        epoch = self._epochs.get(partition_index)
        if epoch is not None and epoch.leader_epoch <= leader_epoch:
            del self._epochs[partition_index]
            self._current[partition_index].set(None)
            epoch.close()

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Loads and serves shards until cancelled; all waiting requests then get NOT_COORDINATOR."""
        async with trio.open_nursery() as nursery:
            task_status.started()
            while True:
                await self._begun.wait()
                while self._new:
                    nursery.start_soon(self._epoch_by_epoch, self._new.pop(), nursery)

    async def _epoch_by_epoch(
        self, current: Latest[ShardEpoch[S, R] | None], nursery: trio.Nursery
    ) -> None:
        """Runs the epochs of a partition one after the other: the next shard does not load before the last one has
        ended, including its threads.

        A failed shard is reloaded from its log after a delay; in Kafka it stays failed until another leader is elected.
        """
        epoch: ShardEpoch[S, R] | None = None
        backoff = ExponentialBackoff(RELOAD_SECONDS, RELOAD_SECONDS_MAX)
        while True:
            if (epoch := await current.wait_not(epoch)) is None:
                continue
            began = trio.current_time()
            await epoch.run()
            nursery.start_soon(epoch.unload)
            if current.value is not epoch:  # its leadership has ended
                backoff.succeeded()
                continue
            if trio.current_time() - began > RELOAD_SECONDS_MAX:
                backoff.succeeded()
            seconds = backoff.failed()
            events.COORDINATOR_RELOADING.log(log, shard=epoch, seconds=seconds)
            with trio.move_on_after(seconds):
                await current.wait_not(epoch)
            if current.value is epoch:
                again = self._epochs[epoch.partition_index] = epoch.again()
                self._may_load = True
                current.set(again)

    # -- finding

    @property
    def epochs(self) -> Collection[ShardEpoch[S, R]]:
        """The epochs of the partitions that this broker leads, one for each."""
        return self._epochs.values()

    @property
    def is_loading(self) -> bool:
        """Whether the shard of any partition that this broker leads is being loaded."""
        if self._may_load:
            self._may_load = any(epoch.state is ShardState.LOADING for epoch in self.epochs)
        return self._may_load

    async def wait_loaded(self, partition_indexes: Collection[int] | None, seconds: float) -> None:
        """Waits until the shards of these partitions, or of all if None, are loaded or have ended, at most for
        `seconds`.
        """
        with trio.move_on_after(seconds):
            for epoch in list(self.epochs):
                if partition_indexes is None or epoch.partition_index in partition_indexes:
                    await epoch.wait_loaded()

    def epoch_of(self, partition_index: int) -> ShardEpoch[S, R]:
        """Returns the current epoch of a partition; its shard may still be loading.

        Raises:
            KafkaError: NOT_COORDINATOR if another broker leads.
        """
        epoch = self._epochs.get(partition_index)
        if epoch is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        return epoch

    def complete_transaction(
        self, partition_index: int, producer: Producer, marker: EndMarker, transaction_version: int
    ) -> AppendInfo:
        """Writes a marker for a transaction coordinator, and applies it to the shard.

        Raises:
            KafkaError: NOT_LEADER_OR_FOLLOWER if this broker does not lead the partition or is still loading it: a
                transaction coordinator expects no coordinator codes, and retries (as in Kafka's `KafkaApis`); otherwise
                the codes of `append_end_marker`.
        """
        try:
            serving = self.epoch_of(partition_index).serving()
        except KafkaError as error:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER) from error
        return serving.complete_transaction(producer, marker, transaction_version)


def partition_for(key: str, partition_count: int) -> int:
    """Returns the partition of an internal topic for `key`, e.g. a group id: `Utils.abs(hash) % count`.

    The only hash without a positive counterpart is replaced by 0.
    """
    value = java_hash(key)
    return (0 if value == -(1 << 31) else abs(value)) % partition_count
