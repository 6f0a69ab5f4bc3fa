"""A change of the ISR that a leader requests from the controller: immutable, so that a retry is identical
(KAFKA-15353).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from trimaran.broker.partitions.isr import IsrState
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import (
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    Offset,
    PartitionEpoch,
    TopicIdPartition,
)

# The controller changed nothing and our epochs are current: the committed ISR remains.
NOT_APPLIED = frozenset({ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA})
# This broker lags behind the controller: newer metadata will have the outcome. The proposal stays pending until then,
# so that the watermark waits for its members.
AWAIT_METADATA = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)


@dataclass(frozen=True, slots=True)
class IsrChange:
    """A requested ISR. `new_isr` pairs broker ids with the broker epochs that the leader saw in their fetches (-1 if
    there was none yet).
    """

    partition: TopicIdPartition
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    leader_recovery_state: int
    new_isr: tuple[tuple[BrokerId, BrokerEpoch], ...]


class SavedLeaderState(NamedTuple):
    """The part of a leader epoch's state that the metadata lacks; `change` is the ISR change whose outcome is
    pending.
    """

    start_offset: Offset
    isr: IsrState
    change: IsrChange | None
    end_offset: Offset


class IsrChangeOwner(Protocol):
    """The leader epoch that owns a change; it ignores answers to outdated changes."""

    def isr_committed(
        self,
        change: IsrChange,
        isr: tuple[BrokerId, ...],
        leader_epoch: LeaderEpoch,
        partition_epoch: PartitionEpoch,
    ) -> None: ...

    def isr_refused(self, change: IsrChange, code: int) -> bool:
        """Returns True if the same change should be sent again."""


class IsrChanges(Protocol):
    """A queue of changes for the controller."""

    def submit(self, owner: IsrChangeOwner, change: IsrChange) -> None: ...
