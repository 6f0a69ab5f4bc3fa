"""One epoch of a shard: it loads, serves, and closes. The trio shell around a `CoordinatorShard`.

It serves from the end of the load until the leader epoch of its partition ends: before that, requests get
COORDINATOR_LOAD_IN_PROGRESS, afterwards NOT_COORDINATOR. Waiting requests hold a `PendingResponse`, never a task of the
epoch. Source: `CoordinatorRuntime.CoordinatorContext` of Kafka. Not implemented: lingering, because an append is a
single call and flushes are shared anyway.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from enum import Enum
from typing import Any, Generic, TypeVar

import trio

from trimaran.broker import events
from trimaran.broker.coordination.effects import current_instant
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
from trimaran.node.runtime.steps import Steps
from trimaran.node.runtime.threads import run_blocking
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import LeaderEpoch, Offset

log = logging.getLogger(__name__)

S = TypeVar("S", bound=CoordinatorShard[Any])
R = TypeVar("R")
T = TypeVar("T")

E = ErrorCode


class ShardState(Enum):
    """The states of a shard: only an active one serves requests; clients retry while it loads."""

    LOADING = "loading"
    ACTIVE = "active"
    CLOSED = "closed"


class ShardEpoch(Generic[S, R]):
    """One epoch of a shard. A coordinator may keep a reference after its end; every call then raises
    NOT_COORDINATOR.
    """

    def __init__(
        self, spec: CoordinatorSpec[S, R], partition_index: int, leader: CoordinatorPartition
    ) -> None:
        self.partition_index = partition_index
        self._spec = spec
        self._leader = leader
        self._state = Latest(ShardState.LOADING)
        # Inputs that arrived while the shard was loading; their number is bounded by the metadata changes in that time.
        self._when_loaded: list[Callable[[S, Instant], object]] = []
        self._serving: ServingShard[S, R] | None = None

    def __repr__(self) -> str:
        return f"<shard of {self._name} epoch {self.leader_epoch} {self.state.value}>"

    @property
    def _name(self) -> str:
        return f"{self._spec.topic}-{self.partition_index}"

    @property
    def leader_epoch(self) -> LeaderEpoch:
        return self._leader.epoch

    @property
    def state(self) -> ShardState:
        return self._state.value

    @property
    def producers(self) -> ProducerState:
        """The producer state of the partition, including open transactions."""
        return self._leader.log.producers

    @property
    def log_end_offset(self) -> Offset:
        return self._leader.log.log_end_offset

    # -- life

    def again(self) -> ShardEpoch[S, R]:
        """Returns a new epoch of the same leadership, which loads the current log."""
        return ShardEpoch(self._spec, self.partition_index, self._leader)

    async def run(self) -> None:
        """Loads and serves until `close`; logs an error of the shard without affecting other shards."""
        try:
            async with open_epoch(self.close) as nursery:
                await self._load(nursery)
                await self._state.wait_for(lambda state: state is ShardState.CLOSED)
        except Exception:  # other shards must continue  # noqa: BLE001 - it is logged, with its traceback
            events.COORDINATOR_FAILED.log(log, exc_info=True, shard=self)

    async def unload(self) -> None:
        """Releases the shard; must be called after `run` has returned."""
        serving, self._serving = self._serving, None
        if serving is not None:
            await run_blocking(serving.shard.unload)

    def close(self) -> None:
        """Ends the epoch immediately: further calls and pending responses fail with NOT_COORDINATOR."""
        if self.state is not ShardState.CLOSED:
            self._state.set(ShardState.CLOSED)
            if self._serving is not None:
                self._serving.effects.close()

    async def wait_loaded(self) -> None:
        """Waits until the shard is loaded or its epoch has ended."""
        await self._state.wait_not(ShardState.LOADING)

    async def _load(self, nursery: trio.Nursery) -> None:
        """Loads the shard and begins to serve, unless the epoch has ended in the meantime."""
        began = time.monotonic()
        shard, end_offset = await load_shard(
            self._spec, self._name, self._leader.log, lambda: self.state is ShardState.LOADING
        )
        self._spec.load_times.observe(time.monotonic() - began)
        if self.state is ShardState.LOADING:
            self._serve(shard, end_offset, nursery)

    def _serve(self, shard: S, end_offset: Offset, nursery: trio.Nursery) -> None:
        serving = self._serving = ServingShard(
            self._spec,
            self._leader,
            shard,
            end_offset,
            self._diverged,
            lambda name: nursery.start_soon(self._spec.follow_up, self, name),
        )
        self._state.set(ShardState.ACTIVE)
        nursery.start_soon(serving.effects.keep_time)
        nursery.start_soon(serving.effects.watch_commits)
        self.step(lambda shard, at: shard.loaded(at))
        waiting, self._when_loaded = self._when_loaded, []
        for act in waiting:
            self.step(act)

    def _diverged(self) -> None:
        """Closes the epoch, because state and log have diverged: no decision may be based on this state."""
        events.COORDINATOR_REPLAY_FAILED.log(log, exc_info=True, shard=self)
        self.close()

    # -- inputs

    def serving(self) -> ServingShard[S, R]:
        """Returns the serving shard. Raises KafkaError: COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR."""
        state = self._state.value
        if state is not ShardState.ACTIVE:
            is_loading = state is ShardState.LOADING
            raise KafkaError(E.COORDINATOR_LOAD_IN_PROGRESS if is_loading else E.NOT_COORDINATOR)
        assert self._serving is not None, "an active shard is loaded"
        return self._serving

    def active(self) -> S:
        """Returns the shard, for reading and for decisions passed to `submit`. Raises KafkaError as `serving` does."""
        return self.serving().shard

    def delete_records_before(self, offset: Offset) -> None:
        """Deletes records that the state does not need; they must be committed. Raises KafkaError if none were
        deleted.
        """
        self._leader.delete_records_before(offset)

    @property
    def is_committed(self) -> bool:
        """Whether the whole state of the shard is committed."""
        return self._serving is not None and self._serving.is_committed

    def step(self, act: Callable[[S, Instant], T]) -> T:
        """Calls `ServingShard.step`. Also raises KafkaError as `serving` does."""
        return self.serving().step(act)

    def step_when_loaded(self, act: Callable[[S, Instant], object]) -> None:
        """Calls `step` as soon as the shard is loaded; never if its epoch has ended."""
        if self.state is ShardState.ACTIVE:
            self.step(act)
        elif self.state is ShardState.LOADING:
            self._when_loaded.append(act)

    def decide(
        self,
        act: Callable[[S, Instant], Result[R, T]],
        unwritten: Callable[[S, Instant], object] | None = None,
    ) -> PendingResponse[T]:
        """Calls `ServingShard.decide`. Also raises KafkaError as `serving` does."""
        return self.serving().decide(act, unwritten)

    def deciding(
        self, act: Callable[[S, Instant], Steps[Result[R, T]]]
    ) -> Steps[PendingResponse[T]]:
        """Passes one input to the shard, which decides in steps; writes its decision in the last one. Between two steps
        the shard may have other inputs. Raises KafkaError as `decide` does.
        """
        steps = act(self.active(), current_instant())
        while True:
            self.active()  # after its end, the shard may be unloaded
            try:
                units = next(steps)
            except StopIteration as end:
                return self.submit(end.value)
            yield units

    def submit(self, result: Result[R, T]) -> PendingResponse[T]:
        """Calls `ServingShard.submit`. Also raises KafkaError as `serving` does."""
        return self.serving().submit(result)
