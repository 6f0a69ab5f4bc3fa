"""What one active controller knows beyond the committed image; dropped whole when its epoch ends.

Its image runs ahead of the commit, by what was appended and is not replicated yet, and its leases are nobody else's. A revert is
to forget all this: the committed image is kept by the loader. Source: Kafka's `QuorumController`, whose timeline collections
this replaces.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

import trio

from quorum.config.server import ServerConfig
from quorum.controller.index import PartitionIndex
from quorum.controller.leases import Leases
from quorum.controller.state import UNCLEAN_LEADER_ELECTION, ControllerState
from quorum.metadata.delta import MetadataDelta
from quorum.metadata.image import BrokerRegistration, MetadataImage, Provenance
from quorum.runtime.clock import now_ms
from quorum.runtime.deferred import Deferred, ReplicatedState, Result
from quorum.runtime.errors import NotLeaderError
from quorum.runtime.watermark import Watermark
from wire.errors import KafkaError
from wire.records.brokers import RegisterBrokerRecord, UnregisterBrokerRecord
from wire.records.configs import ConfigRecord
from wire.schema import Message

log = logging.getLogger(__name__)

T = TypeVar("T")

# Largest batch of a result that may be cut. As Kafka's.
RECORDS_PER_BATCH = 10_000

Propose = Callable[[Sequence[Message], int], int]


class Reign:
    """One epoch of the active controller.

    Args:
        propose: appends an atomic batch in an epoch and returns its last offset (`QuorumNode.propose`).
        give_up: makes this node stop leading; called when log and state have parted.
        image: committed, everything below `applied_end`; `index` is of its topics.
        log_end: where our first record will be written.
    """

    def __init__(
        self,
        epoch: int,
        propose: Propose,
        give_up: Callable[[], object],
        image: MetadataImage,
        index: PartitionIndex,
        config: ServerConfig,
        *,
        applied_end: int,
        log_end: int,
        session_seconds: float,
    ) -> None:
        self.epoch = epoch
        self.leases = Leases(session_seconds)
        self.committed = Watermark(applied_end)
        self.suspects: dict[int, int] = {}  # broker id → epoch, whose connection has closed
        self.suspected = trio.Event()
        # Somebody should look for leaders: of what has none, and with which unclean elections where they are allowed.
        self.leaders_wanted = trio.Event()
        self.unclean_wanted = trio.Event()
        self.emptying = trio.Event()
        self._propose = propose
        self._give_up = give_up
        self._image = image
        self._index = index
        self._config = config
        self._delta: MetadataDelta | None = None
        self._last_offset = log_end - 1
        self._registered_at: dict[int, int] = {}
        self._writes: ReplicatedState[Message] = ReplicatedState(
            self._append, self._replay, self.committed, log_end
        )

    @property
    def image(self) -> MetadataImage:
        """After everything that was appended."""
        if self._delta is not None:
            self._image = self._delta.apply(Provenance(self._last_offset, self.epoch, now_ms()))
            self._index.apply(self._delta.topics)
            self._delta = None
        return self._image

    @property
    def state(self) -> ControllerState:
        """What decisions about partitions read."""
        return ControllerState(self.image, self._index, self._config)

    @property
    def next_offset(self) -> int:
        return self._writes.end_offset

    def registered_at(self, broker: BrokerRegistration) -> int:
        """The offset of a broker's registration: its epoch, unless the same incarnation has registered again since."""
        return max(self._registered_at.get(broker.id, broker.epoch), broker.epoch)

    def submit(self, result: Result[Message, T]) -> Deferred[T]:
        """Appends and replays; see `ReplicatedState.submit`."""
        try:
            return self._writes.submit(result)
        except (KafkaError, NotLeaderError):
            raise
        except Exception:
            self._give_up()  # log and state have parted: somebody else, or we anew, begin from the log
            raise

    def suspect(self, broker_id: int, broker_epoch: int) -> None:
        """The connection of a broker's heartbeats is closed: somebody should look."""
        self.suspects[broker_id] = broker_epoch
        self.suspected.set()

    def close(self) -> None:
        self._writes.close()

    def _append(self, records: Sequence[Message], atomic: bool) -> int:
        if atomic or len(records) <= RECORDS_PER_BATCH:
            return self._propose(records, self.epoch)
        last_offset = self._propose(records[:RECORDS_PER_BATCH], self.epoch)
        try:
            for start in range(RECORDS_PER_BATCH, len(records), RECORDS_PER_BATCH):
                part = records[start : start + RECORDS_PER_BATCH]
                last_offset = self._propose(part, self.epoch)
        except Exception:
            # A part is in the log that the state does not have.
            log.exception(
                "a change of %d records was cut short: giving up leadership", len(records)
            )
            self.close()
            self._give_up()
            raise NotLeaderError from None
        return last_offset

    def _replay(self, offset: int, record: Message) -> None:
        if self._delta is None:
            self._delta = MetadataDelta(self._image)
        self._delta.replay(record)
        self._last_offset = offset
        if isinstance(record, RegisterBrokerRecord):
            self._registered_at[record.broker_id] = offset
        elif isinstance(record, UnregisterBrokerRecord):
            self._registered_at.pop(record.broker_id, None)
        elif isinstance(record, ConfigRecord) and record.name == UNCLEAN_LEADER_ELECTION:
            self.unclean_wanted.set()
