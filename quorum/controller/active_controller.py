"""The knowledge of one active controller beyond the committed image; dropped whole when its epoch ends.

Its image runs ahead of the commit, by what was appended and is not replicated yet, and its leases are its own. A
revert is to forget all this: the committed image is kept by the loader. Source: Kafka's `QuorumController`;
this replaces its timeline collections.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Protocol, TypeVar

from trimaran.node.config.server import ServerConfig
from trimaran.node.replicated.pending import PendingResponse, Progress
from trimaran.node.replicated.state_machine import Producer, ReplicatedStateMachine, Result
from trimaran.node.runtime.clock import now_ms
from trimaran.node.runtime.errors import NotLeaderError
from trimaran.node.runtime.steps import Steps
from trimaran.node.runtime.watermark import Watermark
from trimaran.quorum import events
from trimaran.quorum.controller.nodes.leases import Leases
from trimaran.quorum.controller.nodes.reachability import Reachability
from trimaran.quorum.controller.partitions.index import PartitionIndex
from trimaran.quorum.controller.partitions.state import UNCLEAN_LEADER_ELECTION, ControllerState
from trimaran.quorum.metadata.delta import MetadataDelta
from trimaran.quorum.metadata.image import BrokerRegistration, MetadataImage, Provenance
from trimaran.quorum.metadata.versions import METADATA_VERSION
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import BrokerEpoch, BrokerId, LeaderEpoch, Offset
from trimaran.wire.records.brokers import RegisterBrokerRecord, UnregisterBrokerRecord
from trimaran.wire.records.configs import ConfigRecord
from trimaran.wire.records.features import FeatureLevelRecord
from trimaran.wire.schema import Message
from trimaran.wire.transport.scheduling.events import AutoResetEvent

log = logging.getLogger(__name__)

T = TypeVar("T")

# Largest batch of a result that may be cut. As Kafka's.
RECORDS_PER_BATCH = 10_000


class Node(Protocol):
    """The part of `QuorumNode` that writes. Records are of the level that `metadata_version` is."""

    metadata_version: int

    def encode(self, records: Sequence[Message]) -> Steps[bytes]: ...

    def propose(
        self, records: Sequence[Message], epoch: LeaderEpoch, batch: bytes | None = None
    ) -> Offset: ...

    def resign(self) -> None: ...


class ActiveController:
    """One epoch of the active controller. Decisions go through `submit`; `image` is the one after the last decision
    that has ended.

    Args:
        node: stops leading when log and state have parted.
        image: committed, everything below `applied_end`; `index` is of its topics.
        log_end: where our first record will be written.
    """

    def __init__(
        self,
        epoch: LeaderEpoch,
        node: Node,
        image: MetadataImage,
        index: PartitionIndex,
        config: ServerConfig,
        *,
        applied_end: Offset,
        log_end: Offset,
        session_seconds: float,
        reachability: Reachability | None = None,
    ) -> None:
        self.epoch = epoch
        self.reachability = reachability or Reachability()
        self.leases = Leases(session_seconds)
        self.image = image
        self.committed = Watermark(applied_end)
        self._progress = Progress(
            self.committed,
            log_end,
            ended=ErrorCode.NOT_CONTROLLER,
            message="this node is not the active controller any more",
        )
        # The epochs of brokers with a closed connection.
        self.suspects: dict[BrokerId, BrokerEpoch] = {}
        self.suspected = AutoResetEvent()
        # A task should elect leaders: for partitions without one, and uncleanly if that is allowed.
        self.leaders_wanted = AutoResetEvent()
        self.unclean_wanted = AutoResetEvent()
        self.draining = AutoResetEvent()
        self._node = node
        self._index = index
        self._config = config
        self._delta: MetadataDelta | None = None
        self._registered_at: dict[BrokerId, Offset] = {}
        self._machine = ReplicatedStateMachine[Message](
            self._append, self._replay, self._progress, self._give_up
        )
        self.operations = self._machine.operations

    @property
    def state(self) -> ControllerState:
        """The state that decisions about partitions read."""
        return ControllerState(self.image, self._index, self._config)

    @property
    def next_offset(self) -> Offset:
        return self._progress.end_offset

    def registered_at(self, broker: BrokerRegistration) -> Offset:
        """The offset of a broker's registration: its epoch, unless the same incarnation has registered again since."""
        return self._registered_at.get(broker.id, Offset(broker.epoch))

    def submit(self, steps: Steps[T]) -> PendingResponse[T]:
        """Makes a decision in its turn, mostly now: `steps` read the state, `write`, and return the response.

        Raises:
            KafkaError: NOT_CONTROLLER, the epoch has ended; REQUEST_TIMED_OUT, too many decisions wait.
        """
        return self._machine.operations.submit(steps)

    def write(self, result: Result[Message, T]) -> Steps[T]:
        """Appends and replays, in the turn in which it was decided; as `ReplicatedStateMachine.write`.

        Until all is replayed `image` is the old one; the index is of either only when the turn is over.
        """
        response = yield from self._machine.write(result)
        if self._delta is not None:
            try:
                yield from self._apply(self._delta, self.next_offset - 1)
            except Exception:
                self._give_up()
                raise
        return response

    def _apply(self, delta: MetadataDelta, last_offset: Offset) -> Steps[None]:
        self.image = delta.apply(Provenance(last_offset, self.epoch, now_ms()))
        self._delta = None
        for _ in self._index.apply(delta.topics, self.image.topics):
            yield 1

    def suspect(self, broker_id: BrokerId, broker_epoch: BrokerEpoch) -> None:
        """The connection of a broker's heartbeats is closed: a task should check it."""
        self.suspects[broker_id] = broker_epoch
        self.suspected.set()

    def applied(self, end_offset: Offset, epoch: LeaderEpoch) -> None:
        """All below `end_offset` is committed, the last of it written in `epoch`. A later one than ours has other
        records at our offsets, whether or not the role has been seen to end: nothing more is answered.
        """
        if epoch > self.epoch:
            self.close()
        elif not self.committed.closed:
            self.committed.advance(end_offset)

    def close(self) -> None:
        """Ends the epoch: every operation, and every response that waits for a commit, fails with NOT_CONTROLLER."""
        self.committed.close()
        self.operations.close()

    def _append(self, result: Result[Message, object]) -> Steps[Offset]:
        records = result.records
        size = len(records) if result.atomic else RECORDS_PER_BATCH
        parts = [records[start : start + size] for start in range(0, len(records), size)]
        batches = []
        for part in parts:
            batch = yield from self._node.encode(part)
            batches.append(batch)
        last_offset = self._node.propose(parts[0], self.epoch, batches[0])
        try:
            for part, batch in zip(parts[1:], batches[1:], strict=True):
                last_offset = self._node.propose(part, self.epoch, batch)
        except Exception:  # noqa: BLE001 - it is logged, with its traceback
            # A part is in the log that the state does not have.
            events.CONTROLLER_CHANGE_CUT_SHORT.log(log, exc_info=True, records=len(records))
            self._give_up()
            raise NotLeaderError from None
        return last_offset

    def _give_up(self) -> None:
        """Log and state have parted: the next leader, this node or another, begins from the log."""
        self.committed.close()
        self._node.resign()

    def _replay(self, offset: Offset, record: Message, _producer: Producer | None) -> None:
        if self._delta is None:
            self._delta = MetadataDelta(self.image)
        self._delta.replay(record)
        if isinstance(record, RegisterBrokerRecord):
            self._registered_at[record.broker_id] = offset
        elif isinstance(record, UnregisterBrokerRecord):
            self._registered_at.pop(record.broker_id, None)
        elif isinstance(record, ConfigRecord) and record.name == UNCLEAN_LEADER_ELECTION:
            self.unclean_wanted.set()
        elif isinstance(record, FeatureLevelRecord) and record.name == METADATA_VERSION:
            # Before it is committed: what is decided next is decided at this level, and older nodes must be able to
            # read it.
            self._node.metadata_version = record.feature_level
