"""The state of one active controller beyond the committed image; discarded when its epoch ends.

The image includes records that are appended but not yet committed. The leases exist only here. To revert, the
controller discards this object, since the loader keeps the committed image. Source: Kafka's `QuorumController`; this
replaces its timeline collections.
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

# The maximum number of records in a batch of a result that may be split, as in Kafka.
RECORDS_PER_BATCH = 10_000


class ProposingNode(Protocol):
    """The part of `QuorumNode` that writes. Records are encoded for `metadata_version`."""

    metadata_version: int

    def encode(self, records: Sequence[Message]) -> Steps[bytes]: ...

    def propose(
        self, records: Sequence[Message], epoch: LeaderEpoch, batch: bytes | None = None
    ) -> Offset: ...

    def resign(self) -> None: ...


class ActiveController:
    """One epoch of the active controller. Decisions go through `submit`; `image` reflects the last completed decision.

    Args:
        node: resigns as leader when log and state have diverged.
        image: the committed image, which reflects all records below `applied_end`; `index` is built from its topics.
        log_end: the offset of the first record that this epoch will write.
    """

    def __init__(
        self,
        epoch: LeaderEpoch,
        node: ProposingNode,
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
        # The epochs of brokers whose heartbeat connection has closed.
        self.suspects: dict[BrokerId, BrokerEpoch] = {}
        self.suspected = AutoResetEvent()
        # These events start tasks: the election of leaders for leaderless partitions, unclean elections for topics that
        # allow them, and the draining of brokers that shut down.
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
        """Returns the state that decisions about partitions read."""
        return ControllerState(self.image, self._index, self._config)

    @property
    def next_offset(self) -> Offset:
        return self._progress.end_offset

    def registered_at(self, broker: BrokerRegistration) -> Offset:
        """Returns the offset of the broker's last registration, which is its epoch unless the same incarnation
        registered again.
        """
        return self._registered_at.get(broker.id, Offset(broker.epoch))

    def submit(self, steps: Steps[T]) -> PendingResponse[T]:
        """Queues a decision, which is usually made immediately: `steps` read the state, `write`, and return the
        response.

        Raises:
            KafkaError: NOT_CONTROLLER if the epoch has ended; REQUEST_TIMED_OUT if too many decisions are waiting.
        """
        return self._machine.operations.submit(steps)

    def write(self, result: Result[Message, T]) -> Steps[T]:
        """Appends and replays the records in the turn of their decision, as `ReplicatedStateMachine.write` does.

        Until all of them are replayed, `image` is the old one; the index is consistent only at the end of the turn.
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
        """Notes that the broker's heartbeat connection has closed, so that a task checks the broker."""
        self.suspects[broker_id] = broker_epoch
        self.suspected.set()

    def applied(self, end_offset: Offset, epoch: LeaderEpoch) -> None:
        """Notes that all records below `end_offset` are committed; the last of them was written in `epoch`.

        A later epoch than ours has other records at our offsets, even if this node has not noticed the end of its
        leadership; no pending response is completed then.
        """
        if epoch > self.epoch:
            self.close()
        elif not self.committed.closed:
            self.committed.advance(end_offset)

    def close(self) -> None:
        """Ends the epoch: all queued operations, and all responses that wait for a commit, fail with NOT_CONTROLLER."""
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
            # The log has a part of the records that the state does not have.
            events.CONTROLLER_CHANGE_CUT_SHORT.log(log, exc_info=True, records=len(records))
            self._give_up()
            raise NotLeaderError from None
        return last_offset

    def _give_up(self) -> None:
        """Resigns, because log and state have diverged; the next leader, possibly this node, starts from the log."""
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
            # Set before the commit: the next decisions are made at this level, and nodes of an older version must be
            # able to read them.
            self._node.metadata_version = record.feature_level
