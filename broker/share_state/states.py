"""The durable state of a share partition, and the interface to the share coordinators that store it.

The leader of a partition reads the state of each share group when it begins to serve it, and writes each change before
it answers an acknowledgement. The group coordinator initializes and deletes states. Source: KIP-932, Kafka's
`Persister`.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple, Protocol

from trimaran.wire.identity import LeaderEpoch, Offset, SharePartitionKey, StateEpoch


class DeliveryState(IntEnum):
    """The state of delivered records. ACQUIRED and ARCHIVING last only as long as the leader: they are not stored."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    """The records are being written to the dead-letter queue (KIP-1191)."""
    ARCHIVED = 4


class StateBatch(NamedTuple):
    """Records with the same state, from `first_offset` to `last_offset`, both included."""

    first_offset: Offset
    last_offset: Offset
    state: DeliveryState
    delivery_count: int


class ShareSummary(NamedTuple):
    """The position of a share group in one partition.

    `start_offset` is None if the group has not begun to read the partition; the leader then begins as
    `share.auto.offset.reset` determines. `delivery_complete_count` counts records from `start_offset` on that are
    acknowledged or archived; None if it is unknown.
    """

    state_epoch: StateEpoch
    leader_epoch: LeaderEpoch
    start_offset: Offset | None
    delivery_complete_count: int | None


class ShareState(NamedTuple):
    """A position with the state of records from `start_offset` on, in order. Records without a batch are available, and
    were never delivered.
    """

    summary: ShareSummary
    batches: tuple[StateBatch, ...]


class ShareStates(Protocol):
    """The states of all share partitions, wherever their coordinators are. Each method returns when the change is
    committed.

    All raise KafkaError: FENCED_STATE_EPOCH if the group has been initialized again since; FENCED_LEADER_EPOCH if
    another leader has read the state; INVALID_REQUEST if a read or a write finds no state, or numbers are negative;
    POLICY_VIOLATION if the coordinator has no room; COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR or
    COORDINATOR_LOAD_IN_PROGRESS after retries (12 s); UNKNOWN_TOPIC_OR_PARTITION if the partition does not exist, also
    after retries.
    """

    async def initialize(
        self, key: SharePartitionKey, state_epoch: StateEpoch, start_offset: Offset | None
    ) -> None:
        """Stores a state without batches."""

    async def read(self, key: SharePartitionKey, leader_epoch: LeaderEpoch) -> ShareState:
        """Returns the state; from now on, writes of earlier leaders are refused. The leader epoch of the result is that
        of the request; the count of complete deliveries is unknown (None), because the request has no field for it.
        """

    async def summary(self, key: SharePartitionKey, leader_epoch: LeaderEpoch) -> ShareSummary:
        """Returns the position, without fencing a leader."""

    async def write(
        self, key: SharePartitionKey, summary: ShareSummary, batches: Sequence[StateBatch]
    ) -> None:
        """Stores a position, and the state of these batches; other batches from `summary.start_offset` on stay."""

    async def delete(self, key: SharePartitionKey) -> None:
        """Deletes the state; no error if there is none."""
