"""In-sync replicas and the high watermark: arithmetic without I/O.

Source: `Partition`, `PartitionState` and `Replica` of Kafka, KIP-497 (maximal ISR), KIP-841 and KIP-903 (eligibility).
Intentional difference: a replica's end offset is the end of its data on *disk* (for the leader, its own flushed end).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from trimaran.wire.identity import (
    NO_BROKER_EPOCH,
    NO_OFFSET,
    BrokerEpoch,
    BrokerId,
    Offset,
    PartitionEpoch,
)

# The number of times a follower fetches the same records before they are suspect. A broken connection costs one
# repetition.
REPETITIONS = 2


@dataclass(slots=True)
class FetchClock:
    """The time of a follower's last fetch, whichever partitions the request named.

    Shared by all partitions of a fetch session: if an incremental fetch omits a partition, its position has not
    changed, and the follower is as up to date in it as at its last request.
    """

    time: float = float("-inf")
    previous: float = float("-inf")

    def tick(self, now: float) -> None:
        """Records a request at `now`, before its partitions are served."""
        self.previous, self.time = self.time, now


@dataclass(slots=True)
class ReplicaProgress:
    """The leader's knowledge of one follower, from the fetches of this leader epoch."""

    end_offset: Offset = NO_OFFSET  # before the first fetch, for which the watermark waits
    log_start_offset: Offset = NO_OFFSET
    broker_epoch: BrokerEpoch = NO_BROKER_EPOCH  # from the fetch that set `end_offset`
    at_end: bool = False  # the last fetch was at the leader's end offset
    leader_end_at_fetch: Offset = Offset(0)
    caught_up_at: float = float("-inf")
    clock: FetchClock = field(default_factory=FetchClock)
    sent_from: Offset = NO_OFFSET  # the offset of the records last sent to the follower
    sent_again: int = 0

    def records_sent(self, offset: Offset) -> bool:
        """Notes that the records from `offset` on are sent to the follower; returns True if it has received them
        suspiciously often.

        After the first time it returns True less and less often, because each True leads to a check.
        """
        if offset != self.sent_from:
            self.sent_from, self.sent_again = offset, 0
            return False
        self.sent_again += 1
        return self.sent_again >= REPETITIONS and not self.sent_again & (self.sent_again - 1)

    def record(
        self,
        offset: Offset,
        *,
        leader_end: Offset,
        broker_epoch: BrokerEpoch,
        clock: FetchClock,
        now: float,
    ) -> None:
        """Records a fetch at `offset` made at `now`, for which `clock` has ticked.

        Everything below `offset` is on the follower's disk; `leader_end` is the leader's end before the read. An offset
        below the previous one means that the follower has lost records and must catch up again.
        """
        if offset < self.end_offset:
            self.caught_up_at = float("-inf")
        if offset >= leader_end:
            self.caught_up_at = now
        elif offset >= self.leader_end_at_fetch:
            # Its previous fetch had reached the end of the leader's log at that time.
            previous = clock.previous if self.clock is clock else self.clock.time
            self.caught_up_at = max(self.caught_up_at, previous)
        self.end_offset = offset
        self.broker_epoch = broker_epoch
        self.at_end = offset >= leader_end
        self.leader_end_at_fetch = leader_end
        self.clock = clock

    def caught_up(self, leader_end: Offset, now: float, lag_seconds_max: float) -> bool:
        """Returns True unless the follower has lagged for longer than `lag_seconds_max`."""
        if self.end_offset == leader_end:
            return True
        last = self.clock.time if self.at_end else self.caught_up_at
        return now - last <= lag_seconds_max


@dataclass(frozen=True, slots=True)
class IsrState:
    """The ISR that the controller has committed, and the proposed one while an AlterPartition is pending."""

    isr: tuple[BrokerId, ...]
    partition_epoch: PartitionEpoch
    proposed: tuple[BrokerId, ...] | None = None

    @property
    def maximal(self) -> frozenset[BrokerId]:
        """The replicas that are or may already be in the ISR: the watermark must wait for them (KIP-497)."""
        return (
            frozenset(self.isr) if self.proposed is None else frozenset((*self.isr, *self.proposed))
        )


def next_high_watermark(
    current: Offset,
    leader_end: Offset,
    replicas: Mapping[BrokerId, ReplicaProgress],
    maximal: Collection[BrokerId],
    about_to_join: Callable[[BrokerId, ReplicaProgress], bool],
) -> Offset:
    """Returns the minimum of `leader_end` and the end offsets on disk of the maximal ISR and of replicas about to join
    it; never less than `current`.

    Waiting for a caught-up replica outside the ISR keeps the watermark from running away from it forever.
    `about_to_join` is only called for replicas that would hold the watermark back.
    """
    watermark = leader_end
    for replica_id, progress in replicas.items():
        if progress.end_offset < watermark and (
            replica_id in maximal or about_to_join(replica_id, progress)
        ):
            watermark = progress.end_offset
    return max(current, watermark)


def may_join(
    progress: ReplicaProgress,
    high_watermark: Offset,
    epoch_start_offset: Offset,
    log_start_offset: Offset,
) -> bool:
    """Returns whether a follower has all records that a member of the ISR must have (KAFKA-7128: also the start of the
    epoch), and no others.

    A log that ends at or before the leader's log start may have diverged without an epoch to show it: it may join once
    it has dropped its records, as it does after the leader's next response. Kafka does not wait for that.
    """
    end = progress.end_offset
    is_of_our_history = end > log_start_offset or progress.log_start_offset >= log_start_offset
    return is_of_our_history and end >= max(high_watermark, epoch_start_offset)


def lagging(
    state: IsrState,
    replicas: Mapping[BrokerId, ReplicaProgress],
    *,
    leader_id: BrokerId,
    leader_end: Offset,
    now: float,
    lag_seconds_max: float,
) -> tuple[BrokerId, ...]:
    """Returns the members of the ISR to drop; empty while a change is pending."""
    if state.proposed is not None:
        return ()
    return tuple(
        replica_id
        for replica_id in state.isr
        if replica_id != leader_id
        and not (
            replica_id in replicas
            and replicas[replica_id].caught_up(leader_end, now, lag_seconds_max)
        )
    )
