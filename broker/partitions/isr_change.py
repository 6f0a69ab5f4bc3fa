"""A change of the ISR that a leader asks the controller for: built once, so that a retry says
the same (KAFKA-15353).
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

# The controller said that nothing was changed and our epochs are right: the committed ISR stands.
NOT_APPLIED = frozenset({ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA})
# We are behind the controller: newer metadata will come and settle it. The proposal stays pending (the watermark stays
# careful) until then.
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
    """`new_isr` pairs broker ids with the broker epochs that the leader saw in their fetches (-1: none yet)."""

    partition: TopicIdPartition
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    leader_recovery_state: int
    new_isr: tuple[tuple[BrokerId, BrokerEpoch], ...]


class SavedLeaderState(NamedTuple):
    """The leader's state of its epoch that the metadata does not have yet; `change` is the ISR change that waits
    for its
    answer.
    """

    start_offset: Offset
    isr: IsrState
    change: IsrChange | None
    end_offset: Offset


class IsrChangeOwner(Protocol):
    """The leader epoch that a change belongs to; it ignores answers to changes that it no longer wants."""

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
    """Takes changes to the controller."""

    def submit(self, owner: IsrChangeOwner, change: IsrChange) -> None: ...
