"""The leader's state of its replicas: fetch offsets, high watermark, check-quorum, deferred fetches.

A follower flushes before its next fetch, so a voter's fetch offset is its flushed end; the leader counts its own
flushed end. Source: Kafka's `LeaderState` (KIP-595); check-quorum as in KAFKA-15489. A leader that is not in the newest
set continues to lead until that set is committed, and does not count itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from trimaran.quorum.raft.messages import (
    AddVoterResponse,
    FetchRequest,
    RemoveVoterResponse,
    UpdateVoterResponse,
)
from trimaran.quorum.raft.types import ReplicaKey, Timeouts, ensure
from trimaran.quorum.raft.voters import Voter, VoterSet
from trimaran.wire.identity import NO_OFFSET, NodeId, Offset

# An observer that has not fetched for this time is forgotten (Kafka's figure); the number of remembered observers is
# bounded too.
OBSERVER_SECONDS = 300.0
OBSERVERS_MAX = 2000
# An observer that was once caught up and has fetched within this time may become a voter (Kafka's figure).
JOINING_SECONDS = 3600.0


@dataclass(slots=True)
class FetchProgress:
    """One replica's progress, from its fetches. -1: never fetched; times are on the core's clock."""

    key: ReplicaKey
    end_offset: Offset = NO_OFFSET
    last_fetch: float = -inf
    last_caught_up: float = -inf
    last_fetch_leader_end: Offset = NO_OFFSET

    def fetched(self, offset: Offset, leader_end: Offset, now: float) -> None:
        if offset >= leader_end:
            self.last_caught_up = now
        elif offset >= self.last_fetch_leader_end:
            self.last_caught_up = self.last_fetch
        self.end_offset = offset
        self.last_fetch = now
        self.last_fetch_leader_end = leader_end


class DeferredFetch(NamedTuple):
    """A fetch that is answered when there are new records, or at `expires`."""

    token: int
    request: FetchRequest
    expires: float


@dataclass(slots=True)
class PendingChange:
    """The one pending change of the voter set. `token` is None once it is answered, `offset` None until its record is
    appended.

    `voter` is the one to be added or updated, `question` the token of the query to its endpoint.
    """

    response_class: type[AddVoterResponse | RemoveVoterResponse | UpdateVoterResponse]
    token: int | None
    expires: float
    voter: Voter | None = None
    question: int | None = None
    ack_when_committed: bool = True
    offset: Offset | None = None


# The maximum number of deferred fetches of observers. Each connection may have one, and the bound is far above any real
# number of brokers. Observers beyond it are refused and try again after a backoff, whereas an empty response would make
# them fetch again immediately. The same number is reserved for voters.
DEFERRED_MAX = 4000
DEFERRED_BY_VOTERS_MAX = 100


@dataclass(slots=True)
class LeaderState:
    """The state of one leadership, discarded at its end.

    `voter_set` is the newest set in the log. `others` are its voters except this node, and `needed` of them make a
    majority (together with this node, if it is a voter). `discovered_voters` is the set of a static quorum as its
    voters have reported it; `pending_kraft_version` is a level of kraft.version that is being appended.
    """

    me: Voter
    voter_set: VoterSet
    timeouts: Timeouts
    start_offset: Offset
    granting: frozenset[NodeId]
    check_deadline: float
    begin_deadline: float
    own: FetchProgress
    others: tuple[Voter, ...] = ()
    needed: int = 0
    high_watermark: Offset | None = None
    voters: dict[NodeId, FetchProgress] = field(default_factory=dict)
    observers: dict[ReplicaKey, FetchProgress] = field(default_factory=dict)
    deferred: dict[int, DeferredFetch] = field(default_factory=dict)
    fetched: set[NodeId] = field(default_factory=set)
    change: PendingChange | None = None
    discovered_voters: VoterSet | None = None
    pending_kraft_version: int = 0

    @classmethod
    def begin(
        cls,
        me: Voter,
        voter_set: VoterSet,
        timeouts: Timeouts,
        start_offset: Offset,
        granting: frozenset[NodeId],
        now: float,
    ) -> LeaderState:
        alone = not voter_set.others(me.key)
        leader_state = cls(
            me,
            voter_set,
            timeouts,
            start_offset,
            granting,
            check_deadline=inf if alone else now + timeouts.check_quorum,
            begin_deadline=inf if alone else now,
            own=FetchProgress(me.key),
        )
        leader_state._classify_replicas()
        return leader_state

    def update_voters(self, voter_set: VoterSet, now: float) -> None:
        """Adopts another voter set of the log."""
        self.voter_set = voter_set
        self._classify_replicas()
        self.fetched &= set(voter_set.ids)
        if not self.others:
            self.check_deadline = self.begin_deadline = inf
        elif self.check_deadline == inf:
            self.check_deadline = now + self.timeouts.check_quorum
            self.begin_deadline = now

    def _classify_replicas(self) -> None:
        """Sorts replicas into voters and observers after a change of the set."""
        known = {progress.key: progress for progress in self.voters.values()} | self.observers
        self.others = self.voter_set.others(self.me.key)
        self.needed = self.voter_set.majority - self.is_voter
        self.voters = {}
        for voter in self.voter_set:
            if voter not in self.others:
                self.voters[voter.id] = self.own
                continue
            progress = known.pop(voter.key, None) or known.pop(ReplicaKey(voter.id), None)
            self.voters[voter.id] = progress or FetchProgress(voter.key)
            self.voters[voter.id].key = voter.key
        known.pop(self.me.key, None)
        self.observers = known

    @property
    def is_voter(self) -> bool:
        """Returns whether this node is a voter."""
        return len(self.others) < len(self.voter_set.by_id)

    def flushed(self, end_offset: Offset) -> bool:
        """Notes our own flushed end; returns whether the high watermark moved."""
        self.own.end_offset = end_offset
        return self._advance()

    def fetched_by(
        self, replica: ReplicaKey, offset: Offset, leader_end: Offset, now: float
    ) -> bool:
        """Notes a valid fetch; returns whether the high watermark moved. Observers without an id (-1) are not
        recorded.
        """
        if replica.id < 0:
            return False
        progress = self._find(replica, now)
        progress.fetched(offset, leader_end, now)
        self.update_check_quorum(replica, now)
        return progress is self.voters.get(replica.id) and self._advance()

    def update_check_quorum(self, replica: ReplicaKey, now: float) -> None:
        """Counts a fetching voter; a majority of them, including this node if it is a voter, postpones the resignation
        (R11).
        """
        if replica not in self.voter_set or replica.id == self.me.id:
            return
        self.fetched.add(replica.id)
        if len(self.fetched) >= self.needed:
            self.fetched.clear()
            self.check_deadline = now + self.timeouts.check_quorum

    def has_caught_up(self, replica: ReplicaKey, now: float) -> bool:
        """Returns whether an observer may become a voter without delaying the high watermark."""
        progress = self.observers.get(replica)
        return (
            progress is not None
            and progress.last_caught_up > -inf
            and progress.last_fetch > now - JOINING_SECONDS
        )

    def silent_voters(self, now: float) -> tuple[Voter, ...]:
        """Returns the voters that must receive the leader's announcement (again)."""
        limit = now - self.timeouts.begin_quorum_epoch
        return tuple(v for v in self.others if self.voters[v.id].last_fetch <= limit)

    def successors(self) -> tuple[ReplicaKey, ...]:
        """Returns the other voters, the one with the longest log first."""
        others = [self.voters[voter.id] for voter in self.others]
        return tuple(p.key for p in sorted(others, key=lambda p: -p.end_offset))

    def deadline(self) -> float:
        earliest = min(self.check_deadline, self.begin_deadline)
        for fetch in self.deferred.values():
            if fetch.expires < earliest:
                earliest = fetch.expires
        return earliest if self.change is None else min(earliest, self.change.expires)

    def active_observers(self, now: float) -> list[FetchProgress]:
        return [p for p in self.observers.values() if now - p.last_fetch < OBSERVER_SECONDS]

    def _find(self, replica: ReplicaKey, now: float) -> FetchProgress:
        voter = self.voters.get(replica.id)
        if voter is not None and voter.key.matches(replica):
            return voter
        if replica not in self.observers and len(self.observers) >= OBSERVERS_MAX:
            self.observers = {p.key: p for p in self.active_observers(now)}
            if len(self.observers) >= OBSERVERS_MAX:
                return FetchProgress(replica)
        return self.observers.setdefault(replica, FetchProgress(replica))

    def _advance(self) -> bool:
        """Moves the high watermark to the offset that a majority has flushed, once that includes a record of our own
        epoch.
        """
        ends = sorted([p.end_offset for p in self.voters.values()], reverse=True)
        majority_end = majority_offset(ends)
        if majority_end <= self.start_offset:
            return False
        if self.high_watermark is not None and majority_end <= self.high_watermark:
            return False
        ensure(majority_end <= ends[0], "R6 the high watermark is on a majority", majority_end)
        self.high_watermark = majority_end
        return True


def majority_offset(descending: list[Offset]) -> Offset:
    """Returns the offset that a majority of the voters has reached; the list may have odd or even length."""
    return descending[len(descending) // 2]
