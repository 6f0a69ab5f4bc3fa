"""What a leader knows of its replicas: fetch offsets, high watermark, check-quorum, fetches that wait.

A follower fsyncs before it fetches on, so a voter's fetch offset is its flushed end; the leader counts its own flushed end.
Source: Kafka's `LeaderState` (KIP-595); check-quorum as KAFKA-15489.
Left out: pending changes of the voter set.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from quorum.raft.messages import FetchRequest
from quorum.raft.types import Identity, ReplicaKey, Timeouts, ensure

# An observer that has not fetched for so long is forgotten (Kafka's figure), and no more than so many are remembered.
OBSERVER_SECONDS = 300.0
OBSERVERS_MAX = 2000


@dataclass(slots=True)
class Progress:
    """One replica as its fetches show it. -1: never fetched; times on the core's clock."""

    key: ReplicaKey
    end_offset: int = -1
    last_fetch: float = -inf
    last_caught_up: float = -inf
    last_fetch_leader_end: int = -1

    def fetched(self, offset: int, leader_end: int, now: float) -> None:
        if offset >= leader_end:
            self.last_caught_up = max(self.last_caught_up, now)
        elif offset >= self.last_fetch_leader_end >= 0:
            self.last_caught_up = max(self.last_caught_up, self.last_fetch)
        self.end_offset = offset
        self.last_fetch = max(self.last_fetch, now)
        self.last_fetch_leader_end = leader_end


class ParkedFetch(NamedTuple):
    """A fetch that is answered when there is something new, or at `expires`."""

    token: int
    request: FetchRequest
    expires: float


# Every connection may hold one; far above any real number of brokers. One more is answered at once instead.
PARKED_MAX = 4000


@dataclass(slots=True)
class Reign:
    """State of one leadership; dies with it."""

    identity: Identity
    timeouts: Timeouts
    start_offset: int
    granting: frozenset[int]
    check_deadline: float
    begin_deadline: float
    high_watermark: int | None = None
    voters: dict[int, Progress] = field(default_factory=dict)
    observers: dict[ReplicaKey, Progress] = field(default_factory=dict)
    parked: dict[int, ParkedFetch] = field(default_factory=dict)
    fetched: set[int] = field(default_factory=set)

    @classmethod
    def begin(
        cls,
        identity: Identity,
        timeouts: Timeouts,
        start_offset: int,
        granting: frozenset[int],
        now: float,
    ) -> Reign:
        alone = len(identity.voters) == 1
        reign = cls(
            identity,
            timeouts,
            start_offset,
            granting,
            check_deadline=inf if alone else now + timeouts.check_quorum,
            begin_deadline=inf if alone else now,
        )
        reign.voters = {voter: Progress(ReplicaKey(voter)) for voter in sorted(identity.voters)}
        return reign

    def flushed(self, end_offset: int) -> bool:
        """Our own flushed end; True if the high watermark moved."""
        own = self.voters[self.identity.node_id]
        own.end_offset = max(own.end_offset, end_offset)
        return self._advance()

    def fetched_by(self, replica: ReplicaKey, offset: int, leader_end: int, now: float) -> bool:
        """A valid fetch; True if the high watermark moved. Invisible observers (id -1) are not kept."""
        if replica.id < 0:
            return False
        self._find(replica, now).fetched(offset, leader_end, now)
        self.heard_from(replica.id, now)
        return replica.id in self.voters and self._advance()

    def heard_from(self, replica_id: int, now: float) -> None:
        """A majority of voters that fetch, ourselves included, postpones the resignation (R11)."""
        if replica_id not in self.voters or replica_id == self.identity.node_id:
            return
        self.fetched.add(replica_id)
        if len(self.fetched) >= self.identity.majority - 1:
            self.fetched.clear()
            self.check_deadline = now + self.timeouts.check_quorum

    def silent_voters(self, now: float) -> tuple[int, ...]:
        """Voters that must be told (again) who leads."""
        limit = now - self.timeouts.begin_quorum_epoch
        return tuple(
            voter for voter in self.identity.other_voters if self.voters[voter].last_fetch <= limit
        )

    def successors(self) -> tuple[ReplicaKey, ...]:
        """The other voters, the one with the longest log first."""
        others = [self.voters[voter] for voter in self.identity.other_voters]
        return tuple(p.key for p in sorted(others, key=lambda p: -p.end_offset))

    def deadline(self) -> float:
        parked = min((fetch.expires for fetch in self.parked.values()), default=inf)
        return min(self.check_deadline, self.begin_deadline, parked)

    def active_observers(self, now: float) -> list[Progress]:
        return [p for p in self.observers.values() if now - p.last_fetch < OBSERVER_SECONDS]

    def _find(self, replica: ReplicaKey, now: float) -> Progress:
        voter = self.voters.get(replica.id)
        if voter is not None:
            return voter
        if replica not in self.observers and len(self.observers) >= OBSERVERS_MAX:
            self.observers = {p.key: p for p in self.active_observers(now)}
            if len(self.observers) >= OBSERVERS_MAX:
                return Progress(replica)
        return self.observers.setdefault(replica, Progress(replica))

    def _advance(self) -> bool:
        """Moves the high watermark to what a majority has flushed, once that includes a record of our own epoch."""
        ends = sorted((p.end_offset for p in self.voters.values()), reverse=True)
        majority_end = majority_offset(ends)
        if majority_end <= self.start_offset:
            return False
        if self.high_watermark is not None and majority_end <= self.high_watermark:
            return False
        ensure(majority_end <= ends[0], "R6 the high watermark is on a majority", majority_end)
        self.high_watermark = majority_end
        return True


def majority_offset(descending: list[int]) -> int:
    """The offset that a majority of an odd or even number of voters has reached."""
    return descending[len(descending) // 2]
