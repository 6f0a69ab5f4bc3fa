"""A serving shard: its inputs, and the writes that result from its decisions.

A `ReplicatedStateMachine` writes decisions; an `EffectRunner` carries out all other effects of an input.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from trimaran.broker.coordination.effects import EffectRunner, current_instant
from trimaran.broker.coordination.ports import CoordinatorPartition
from trimaran.broker.coordination.shard import CoordinatorShard, CoordinatorSpec, Write
from trimaran.broker.coordination.timers import Instant
from trimaran.broker.coordination.writing import PartitionWriter
from trimaran.broker.partitions.end_markers import append_end_marker
from trimaran.log.partitions.partition_log import AppendInfo
from trimaran.log.producers.marker import EndMarker
from trimaran.node.replicated.pending import PendingResponse, Progress
from trimaran.node.replicated.state_machine import Producer, ReplicatedStateMachine, Result
from trimaran.node.runtime.clock import now_ms
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import Offset

S = TypeVar("S", bound=CoordinatorShard[Any])
R = TypeVar("R")
T = TypeVar("T")


class ServingShard(Generic[S, R]):
    """The loaded shard of one epoch.

    Args:
        parted: called when state and log have diverged; closes the epoch.
        begin: begins a follow-up.
    """

    def __init__(
        self,
        spec: CoordinatorSpec[S, R],
        leader: CoordinatorPartition,
        shard: S,
        end_offset: Offset,
        parted: Callable[[], object],
        begin: Callable[[str], object],
    ) -> None:
        self.shard = shard
        self._leader = leader
        self._progress = Progress(
            leader.high_watermark,
            end_offset,
            ended=ErrorCode.NOT_COORDINATOR,
            commit_seconds=spec.commit_timeout_ms / 1000,
            late=ErrorCode.COORDINATOR_NOT_AVAILABLE,
        )
        self._writer = PartitionWriter(spec, leader)
        self._machine = ReplicatedStateMachine[R](
            self._writer.append, shard.replay, self._progress, parted
        )
        self.effects = EffectRunner[R](shard, self._progress, self._store, begin)

    @property
    def is_committed(self) -> bool:
        """Whether the whole state of the shard is committed."""
        progress = self._progress
        return not progress.committed.closed and progress.committed.reached(progress.end_offset)

    def step(self, act: Callable[[S, Instant], T]) -> T:
        """Passes one input to the shard and carries out its effects. Raises the error of `act`."""
        result = act(self.shard, current_instant())
        self.effects.settle()
        return result

    def decide(
        self,
        act: Callable[[S, Instant], Result[R, T]],
        unwritten: Callable[[S, Instant], object] | None,
    ) -> PendingResponse[T]:
        """Passes one input to the shard and writes its decision. If the write fails, passes `unwritten` to the shard.

        Raises:
            KafkaError: the errors of `submit`, and the error of `act`.
        """
        result = act(self.shard, current_instant())
        try:
            return self.submit(result)
        except KafkaError:
            if unwritten is not None and not self.effects.closed:
                self.step(unwritten)
            raise

    def submit(self, result: Result[R, T]) -> PendingResponse[T]:
        """Writes a decision; must be called before the state can change again.

        Raises:
            KafkaError: the decision was not written, or (if not atomic) only in part; with the code for clients.
        """
        try:
            return self._write(result)
        finally:
            self.effects.settle()

    def complete_transaction(
        self, producer: Producer, marker: EndMarker, transaction_version: int
    ) -> AppendInfo:
        """Appends a transaction coordinator's marker and replays it.

        Raises:
            KafkaError: the codes of `append_end_marker`; nothing was written.
        """
        info = append_end_marker(
            self._leader,
            marker,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            transaction_version=transaction_version,
            now_ms=now_ms(),
        )
        self._machine.replay_marker(
            info.last_offset + 1,
            lambda: self.shard.complete_transaction(producer, marker.is_commit),
        )
        self.effects.settle()
        return info

    def _write(self, result: Result[R, T]) -> PendingResponse[T]:
        records = result.records
        if not result.atomic and result.producer is None and len(records) > 1:
            *parts, records = self._writer.parts(records)
            for part in parts:
                self._machine.respond(result._replace(records=part))
            result = result._replace(records=records)
        pending = self._machine.respond(result)
        if not records and not pending.ready():
            self._leader.expedite()
        return pending

    def _store(self, write: Write[R]) -> None:
        self._write(Result(write.records, None, write.atomic))
