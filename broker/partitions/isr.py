"""In-sync replicas and the high watermark: arithmetic without I/O.

Source: `Partition`, `PartitionState` and `Replica` of Kafka, KIP-497 (maximal ISR), KIP-841 and KIP-903 (eligibility).
One thing differs on purpose: a replica's end offset is what it has on *disk* (the leader counts its own flushed end).
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

# How often a follower is given the same records before they are suspect. A connection that broke costs one repetition.
REPETITIONS = 2

"""The end offset of a replica that has not fetched in this leader epoch; below every offset, so it holds back."""


@dataclass(slots=True)
class FetchClock:
    """When one follower last fetched, whichever partitions the request named.

    Shared by all partitions of a fetch session: an incremental fetch that leaves a partition out says that its
    position has not changed, so the follower is as current there as its last request.
    """

    time: float = float("-inf")
    previous: float = float("-inf")

    def tick(self, now: float) -> None:
        """Notes a request at `now`, before its partitions are served."""
        self.previous, self.time = self.time, now


@dataclass(slots=True)
class ReplicaProgress:
    """The leader's knowledge of one follower, from the follower's fetches of this leader epoch."""

    end_offset: Offset = NO_OFFSET
    log_start_offset: Offset = NO_OFFSET
    broker_epoch: BrokerEpoch = NO_BROKER_EPOCH  # of the fetch that gave `end_offset`
    at_end: bool = False  # the last fetch asked for the leader's end offset
    leader_end_at_fetch: int = 0
    caught_up_at: float = float("-inf")
    clock: FetchClock = field(default_factory=FetchClock)
    given_from: Offset = NO_OFFSET  # the records that it was given last
    given_again: int = 0

    def given(self, offset: Offset) -> bool:
        """Notes that it is given the records from `offset` on; True when it was given them suspiciously often.

        After the first time less and less often, for the looks that follow from it.
        """
        if offset != self.given_from:
            self.given_from, self.given_again = offset, 0
            return False
        self.given_again += 1
        return self.given_again >= REPETITIONS and not self.given_again & (self.given_again - 1)

    def record(
        self,
        offset: Offset,
        *,
        leader_end: int,
        broker_epoch: BrokerEpoch,
        clock: FetchClock,
        now: float,
    ) -> None:
        """Takes over a fetch at `offset` made at `now`, to which `clock` has been ticked.

        Everything below `offset` is on the follower's disk; `leader_end` is the leader's end before it reads. An offset
        below the last one says that it has lost records: it has to catch up again.
        """
        if offset < self.end_offset:
            self.caught_up_at = float("-inf")
        if offset >= leader_end:
            self.caught_up_at = now
        elif offset >= self.leader_end_at_fetch:
            # It had, at its previous fetch, everything that existed then.
            previous = clock.previous if self.clock is clock else self.clock.time
            self.caught_up_at = max(self.caught_up_at, previous)
        self.end_offset = offset
        self.broker_epoch = broker_epoch
        self.at_end = offset >= leader_end
        self.leader_end_at_fetch = leader_end
        self.clock = clock

    def caught_up(self, leader_end: int, now: float, lag_seconds_max: float) -> bool:
        """True unless the follower has lacked something for longer than `lag_seconds_max`."""
        if self.end_offset == leader_end:
            return True
        last = max(self.caught_up_at, self.clock.time) if self.at_end else self.caught_up_at
        return now - last <= lag_seconds_max


@dataclass(frozen=True, slots=True)
class IsrState:
    """The ISR that the controller committed, and the one asked for while an AlterPartition is under way."""

    isr: tuple[BrokerId, ...]
    partition_epoch: PartitionEpoch
    proposed: tuple[BrokerId, ...] | None = None

    @property
    def maximal(self) -> frozenset[BrokerId]:
        """Returns the replicas that are or may already be in the ISR: the watermark must wait for them (KIP-497)."""
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
    """The least end offset over `leader_end`, the maximal ISR and those about to join it, on their disks; never below
    `current`.

    Waiting for a caught-up replica outside the ISR keeps the watermark from running away from it for ever.
    `about_to_join` is called only for replicas that would hold it back.
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
    high_watermark: int,
    epoch_start_offset: Offset,
    log_start_offset: Offset,
) -> bool:
    """Whether a follower has all that a member of the ISR must have (KAFKA-7128: also the epoch's start), and nothing
    else.

    A log that ends at the start of the leader's may have another history, which no epoch shows any more: it joins
    when it has dropped that, as the leader's next answer has it do. Kafka does not wait for it.
    """
    end = progress.end_offset
    is_of_our_history = end > log_start_offset or progress.log_start_offset >= log_start_offset
    return is_of_our_history and end >= max(high_watermark, epoch_start_offset)


def lagging(
    state: IsrState,
    replicas: Mapping[BrokerId, ReplicaProgress],
    *,
    leader_id: BrokerId,
    leader_end: int,
    now: float,
    lag_seconds_max: float,
) -> tuple[BrokerId, ...]:
    """Members of the ISR to drop; empty while a change is under way."""
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
