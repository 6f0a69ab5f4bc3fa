"""One epoch of a shard, as a block: load, serve, close. The trio shell around a `CoordinatorShard`.

It serves when the whole log is loaded, until the leader epoch of its partition ends: before, requests get
COORDINATOR_LOAD_IN_PROGRESS, after, NOT_COORDINATOR. Requests that wait hold a `PendingResponse`, never a task of the
epoch.
Source: `CoordinatorRuntime.CoordinatorContext` of Kafka. Not implemented: lingering, as an append is one call and the
flush is shared anyhow.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum
from typing import Any, Generic, TypeVar

import trio

from trimaran.broker import events
from trimaran.broker.coordination.loader import load_shard
from trimaran.broker.coordination.ports import CoordinatorPartition
from trimaran.broker.coordination.serving import ServingShard
from trimaran.broker.coordination.shard import CoordinatorShard, CoordinatorSpec
from trimaran.broker.coordination.timers import Instant
from trimaran.log.producers.state import ProducerState
from trimaran.node.replicated.pending import PendingResponse
from trimaran.node.replicated.state_machine import Result
from trimaran.node.runtime.epoch import open_epoch
from trimaran.node.runtime.latest import Latest
from trimaran.node.runtime.threads import run_blocking
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import Offset

log = logging.getLogger(__name__)

S = TypeVar("S", bound=CoordinatorShard[Any])
R = TypeVar("R")
T = TypeVar("T")

E = ErrorCode


class ShardState(Enum):
    """Requests are served by an active shard only; while it loads, clients retry."""

    LOADING = "loading"
    ACTIVE = "active"
    CLOSED = "closed"


class ShardEpoch(Generic[S, R]):
    """A coordinator may keep it: it outlives its block, and then answers NOT_COORDINATOR."""

    def __init__(
        self, spec: CoordinatorSpec[S, R], partition_index: int, leader: CoordinatorPartition
    ) -> None:
        self.partition_index = partition_index
        self._spec = spec
        self._leader = leader
        self._state = Latest(ShardState.LOADING)
        # Inputs that came while the shard loaded; as many as there are changes of metadata meanwhile.
        self._when_loaded: list[Callable[[S, Instant], object]] = []
        self._serving: ServingShard[S, R] | None = None

    def __repr__(self) -> str:
        return f"<shard of {self._name} epoch {self.leader_epoch} {self.state.value}>"

    @property
    def _name(self) -> str:
        return f"{self._spec.topic}-{self.partition_index}"

    @property
    def leader_epoch(self) -> int:
        return self._leader.epoch

    @property
    def state(self) -> ShardState:
        return self._state.value

    @property
    def producers(self) -> ProducerState:
        """The producers of the partition, with their open transactions."""
        return self._leader.log.producers

    @property
    def log_end_offset(self) -> Offset:
        return self._leader.log.log_end_offset

    # -- life

    def again(self) -> ShardEpoch[S, R]:
        """Returns a new one of the same leadership, which loads what the log has now."""
        return ShardEpoch(self._spec, self.partition_index, self._leader)

    async def run(self) -> None:
        """Loads and serves until `close`; a shard that fails takes no other with it."""
        try:
            async with open_epoch(self.close) as nursery:
                await self._load(nursery)
                await self._state.wait_for(lambda state: state is ShardState.CLOSED)
        except Exception:  # shards of other partitions go on  # noqa: BLE001 - it is logged, with its traceback
            events.COORDINATOR_FAILED.log(log, exc_info=True, shard=self)

    async def unload(self) -> None:
        """Releases the shard; call it when `run` has returned."""
        serving, self._serving = self._serving, None
        if serving is not None:
            await run_blocking(serving.shard.unload)

    def close(self) -> None:
        """Ends the epoch at once: nothing is served any more, and pending responses fail with NOT_COORDINATOR."""
        if self.state is not ShardState.CLOSED:
            self._state.set(ShardState.CLOSED)
            if self._serving is not None:
                self._serving.effects.close()

    async def wait_loaded(self) -> None:
        """Returns when it serves, or will not any more."""
        await self._state.wait_not(ShardState.LOADING)

    async def _load(self, nursery: trio.Nursery) -> None:
        """Serves from then on, if the epoch has not ended meanwhile."""
        shard, end_offset = await load_shard(
            self._spec, self._name, self._leader.log, lambda: self.state is ShardState.LOADING
        )
        if self.state is ShardState.LOADING:
            self._serve(shard, end_offset, nursery)

    def _serve(self, shard: S, end_offset: Offset, nursery: trio.Nursery) -> None:
        serving = self._serving = ServingShard(
            self._spec,
            self._leader,
            shard,
            end_offset,
            self._parted,
            lambda name: nursery.start_soon(self._spec.follow_up, self, name),
        )
        self._state.set(ShardState.ACTIVE)
        nursery.start_soon(serving.effects.keep_time)
        nursery.start_soon(serving.effects.watch_commits)
        self.step(lambda shard, at: shard.loaded(at))
        waiting, self._when_loaded = self._when_loaded, []
        for act in waiting:
            self.step(act)

    def _parted(self) -> None:
        """State and log have parted: nothing is decided on this state any more."""
        events.COORDINATOR_REPLAY_FAILED.log(log, exc_info=True, shard=self)
        self.close()

    # -- inputs

    def serving(self) -> ServingShard[S, R]:
        """Raises KafkaError: COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR."""
        state = self._state.value
        if state is not ShardState.ACTIVE:
            is_loading = state is ShardState.LOADING
            raise KafkaError(E.COORDINATOR_LOAD_IN_PROGRESS if is_loading else E.NOT_COORDINATOR)
        assert self._serving is not None, "what serves is loaded"
        return self._serving

    def active(self) -> S:
        """Returns the shard, for reading and for decisions that go into `submit`. Raises KafkaError as `serving`."""
        return self.serving().shard

    @property
    def is_committed(self) -> bool:
        """Whether everything that the shard knows is."""
        return self._serving is not None and self._serving.is_committed

    def step(self, act: Callable[[S, Instant], T]) -> T:
        """As `ServingShard.step`. Raises KafkaError as `serving`, too."""
        return self.serving().step(act)

    def step_when_loaded(self, act: Callable[[S, Instant], object]) -> None:
        """As `step`, as soon as the shard is loaded; never, if its epoch has ended."""
        if self.state is ShardState.ACTIVE:
            self.step(act)
        elif self.state is ShardState.LOADING:
            self._when_loaded.append(act)

    def decide(
        self,
        act: Callable[[S, Instant], Result[R, T]],
        unwritten: Callable[[S, Instant], object] | None = None,
    ) -> PendingResponse[T]:
        """As `ServingShard.decide`. Raises KafkaError as `serving`, too."""
        return self.serving().decide(act, unwritten)

    def submit(self, result: Result[R, T]) -> PendingResponse[T]:
        """As `ServingShard.submit`. Raises KafkaError as `serving`, too."""
        return self.serving().submit(result)
