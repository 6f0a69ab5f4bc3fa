"""The one mutable value of the core: its role, its requests in flight, and its effects that the driver has not taken
yet.

The rules are in the sibling modules (`elections`, `leading`, `following`) as functions over a `State`; only `become`
here changes the role.
"""

from __future__ import annotations

from math import inf
from typing import Any, TypeVar

from trimaran.quorum.raft import roles
from trimaran.quorum.raft.leader_state import PendingChange
from trimaran.quorum.raft.linger import Linger
from trimaran.quorum.raft.log_view import LogView
from trimaran.quorum.raft.messages import (
    AnyResponse,
    BeginQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    Request,
    Response,
    UpdateVoterResponse,
)
from trimaran.quorum.raft.ready import (
    ControlBatch,
    FollowerAppend,
    LeaderAppend,
    Proposal,
    Ready,
    Reply,
    Send,
    SnapshotChunk,
)
from trimaran.quorum.raft.requests import RequestManager
from trimaran.quorum.raft.roles import (
    Candidate,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Role,
    Unattached,
)
from trimaran.quorum.raft.types import ElectionState, Identity, Peer, Prng, Timeouts, ensure
from trimaran.quorum.raft.voters import DYNAMIC_QUORUM, STATIC_QUORUM, Voter, VoterSet
from trimaran.wire.client.backoff import exponential_seconds
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import NO_NODE, LeaderEpoch, NodeId, Offset

A = TypeVar("A", bound=Response)

# The first pause after a lost election; it doubles up to `Timeouts.election_backoff_max`.
ELECTION_BACKOFF = 0.1


class State:
    """The state that the rule modules share. All of them may read attributes without an underscore.

    `has_effects`: there may be work for the driver. `is_drained`: this work is only a vote file or a watermark.
    `has_log_work`: the next `Ready` changes the log.
    """

    # An instance dictionary with more than thirty attributes loses CPython's fast attribute access.
    __slots__ = (
        *("identity", "key", "can_vote", "me", "log", "timeouts", "prng", "_own_peer"),
        *("role", "epoch", "election", "high_watermark", "flushed_offset", "shutting_down"),
        *("requests", "lost_elections", "_next_discovery"),
        *("_seen_voters", "_other_voters", "_voters_before", "_servers"),
        *("has_effects", "is_drained", "has_log_work", "_persisted", "_committed"),
        *("_truncate_to", "_snapshot", "_fetched", "_replies", "_sends"),
        *("linger", "_pending", "_pending_base", "_pending_count"),
    )

    def __init__(
        self,
        identity: Identity,
        log: LogView,
        timeouts: Timeouts,
        prng: Prng,
        role: Role,
        persisted: ElectionState,
    ) -> None:
        self.identity = identity
        self.key = identity.key
        self.can_vote = identity.can_vote
        self.me = Voter(self.key, identity.endpoints, STATIC_QUORUM, DYNAMIC_QUORUM)
        self._own_peer = self.me.peer
        self.log = log
        self.timeouts = timeouts
        self.prng = prng
        self.role: Role
        self.epoch: LeaderEpoch
        self.election: ElectionState
        self._take_role(role)
        self.requests = RequestManager(timeouts)
        self.high_watermark: Offset | None = None
        self.flushed_offset = log.end_offset
        self.lost_elections = 0
        self.shutting_down = False
        self._next_discovery = 0
        # The next fields are derived from `_seen_voters`, the voters at the last check.
        self._seen_voters: VoterSet | None = None
        self._other_voters: tuple[tuple[Voter, Peer], ...] = ()
        self._voters_before: frozenset[NodeId] = frozenset()
        self._servers: list[Peer] = []
        self._persisted = persisted
        self._truncate_to: Offset | None = None
        self._snapshot: SnapshotChunk | None = None
        self._fetched: FollowerAppend | None = None
        self._pending: list[ControlBatch | Proposal] = []
        self._pending_base = 0
        self._pending_count = 0
        self.linger = Linger(timeouts.append_linger, timeouts.linger_max_bytes)
        self._replies: list[Reply] = []
        self._sends: list[Send] = []
        self._committed: Offset | None = None
        self.has_effects = self.is_drained = True
        self.has_log_work = False

    # --- queries

    @property
    def voters(self) -> VoterSet:
        """Returns the newest set in the log, committed or not; it determines votes, majorities and watermarks."""
        return self.log.history.voters

    @property
    def is_voter(self) -> bool:
        return self.key in self.log.history.voters

    @property
    def committed_offset(self) -> Offset:
        """Returns the end of the records that are known to be committed, by the watermark or as part of a snapshot.
        They are never undone (R7).
        """
        latest = self.log.latest_snapshot
        in_snapshot = self.log.start_offset if latest is None else latest.offset
        return max(in_snapshot, self.high_watermark or Offset(0))

    @property
    def can_be_candidate(self) -> bool:
        """Returns `QuorumHistory.can_be_candidate`; always False for a broker, even if it is in the voter set."""
        return (
            self.can_vote
            and self.keeps_promises
            and self.log.history.can_be_candidate(self.key, self.high_watermark)
        )

    @property
    def keeps_promises(self) -> bool:
        """Returns False if the log lacks data that was flushed: it may be shorter than what we have
        acknowledged (R15).
        """
        end_offset = self.log.refetch_end
        return end_offset is None or (
            self.high_watermark is not None and self.high_watermark >= end_offset
        )

    @property
    def own_vote(self) -> frozenset[NodeId]:
        return frozenset({self.key.id}) if self.is_voter else frozenset()

    @property
    def other_voters(self) -> tuple[tuple[Voter, Peer], ...]:
        """Returns the other voters with their addresses."""
        self._refresh_voters()
        return self._other_voters

    def peer_of(self, voter: Voter) -> Peer:
        return voter.peer_on(self.identity.listener)

    def _voter_peer(self, node_id: NodeId) -> Peer | None:
        voter = self.voters.get(node_id)
        return None if voter is None else self.peer_of(voter)

    @property
    def leader_peer(self) -> Peer | None:
        """Returns the leader's address, if known."""
        match self.role:
            case Follower(leader=leader):
                return leader
            case Prospective(leader=leader):
                return leader
            case Leader() if self.identity.endpoints:
                return self._own_peer
            case _:
                return self._voter_peer(self.election.leader_id)

    def find_peer(self, node_id: NodeId, hint: Peer | None) -> Peer | None:
        """Returns the address of `node_id`: from the message, otherwise from the voter set."""
        if hint is not None and hint.id == node_id and hint.host:
            return hint
        return self._voter_peer(node_id)

    # --- changes of role

    def become(self, role: Role) -> None:
        """Changes the role; no other function does. Fails if the table does not allow the transition."""
        before = self.role
        if not roles.is_allowed(before, role):
            ensure(False, "transition", roles.describe(before), "->", roles.describe(role))
        if isinstance(role, (Prospective, Candidate, Leader)) and not self.can_be_candidate:
            ensure(False, "an observer is neither candidate nor leader", roles.describe(role))
        ensure(not self._pending, "a role is left with proposals not yet appended")
        self.linger.take()  # no other node has these proposals; they are lost with the epoch
        self._take_role(role)
        if isinstance(before, Leader):
            self._fail_pending(before)
        self.requests.reset()

    def update(self, role: Role) -> None:
        """Replaces the role's value within the same role, epoch and leader; requests in flight continue."""
        ensure(type(role) is type(self.role) and role.epoch == self.epoch, "update keeps the role")
        election = roles.election_of(role, self.key.id)
        if election == self.election:
            self.role = role
            return
        if not roles.is_allowed(self.role, role):
            ensure(False, "update", roles.describe(self.role), roles.describe(role))
        self.role, self.election, self.has_effects = role, election, True

    def _take_role(self, role: Role) -> None:
        self.role = role
        self.epoch = role.epoch
        self.election = roles.election_of(role, self.key.id)
        self.has_effects = True

    def become_unattached(
        self, epoch: LeaderEpoch, now: float, leader_id: NodeId = NO_NODE
    ) -> None:
        """Enters a higher epoch without a known leader, or (from `Prospective`) the same epoch after a lost
        pre-vote.
        """
        voted = roles.vote_of(self.role) if epoch == self.epoch else None
        self.become(Unattached(epoch, self._unattached_deadline(now), leader_id, voted))

    def become_follower(self, epoch: LeaderEpoch, leader: Peer, now: float) -> None:
        ensure(
            leader.id != self.key.id,
            "R1 a replica follows us in an epoch that we do not lead",
            epoch,
        )
        voted = roles.vote_of(self.role) if epoch == self.epoch else None
        deadline = self.fetch_deadline(leader.id, now) if self.can_be_candidate else inf
        check_at = now + self.timeouts.fetch if self.identity.maintains_voter else inf
        self.become(Follower(epoch, deadline, leader, voted, next_voter_check=check_at))

    def fetch_deadline(self, leader_id: NodeId, now: float) -> float:
        """Returns the time when a silent leader is given up. Its last message reached all voters together; without a
        wait by rank they would all become candidates at the same time.
        """
        return now + self.timeouts.fetch + self.succession_wait(leader_id)

    def succession_wait(self, leader_id: NodeId) -> float:
        """Returns how much later than the first voter in line this voter tries to succeed `leader_id`."""
        self._refresh_voters()
        rank = len(self._voters_before) - (leader_id in self._voters_before)
        return rank * self.timeouts.succession_step

    def _unattached_deadline(self, now: float) -> float:
        if not self.can_be_candidate:
            return inf
        match self.role:
            case Candidate() | Unattached() | Resigned() if self.role.deadline < inf:
                return self.role.deadline
            case _:
                return self.election_deadline(now)

    def election_deadline(self, now: float) -> float:
        return now + self.prng.uniform(1, 2) * self.timeouts.election

    def backoff_deadline(self, now: float) -> float:
        """Returns the end of the pause after a lost election: random, doubled with every consecutive loss, and by rank.
        After a split vote candidates time out together: in a quarter of the cases, random pauses of 50 to 100 ms
        collide within 7 ms, a round of pre-votes, and split the next vote.
        """
        pause = self.random_pause(
            ELECTION_BACKOFF, self.timeouts.election_backoff_max, self.lost_elections
        )
        self.lost_elections += 1
        return now + pause + self.succession_wait(NO_NODE)

    def random_pause(self, first: float, most: float, losses: int) -> float:
        """Returns a pause of up to `first` seconds, doubled by each earlier consecutive loss up to `most`; at least
        half of that.
        """
        return float(self.prng.uniform(0.5, 1) * exponential_seconds(first, most, losses))

    def _fail_pending(self, leader: Leader) -> None:
        change = leader.leader_state.change
        if change is not None:
            self.respond_to_change(change, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        for deferred in leader.leader_state.deferred.values():
            self.reply(
                deferred.token, self.make_response(FetchResponse, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            )

    # --- effects

    def make_response(self, cls: type[A], error: int = 0, **body: Any) -> A:
        """Returns a response with its header filled in: the leader, as far as it is known."""
        return cls(
            error=int(error),
            epoch=self.epoch,
            leader_id=self.election.leader_id,
            leader=self.leader_peer,
            **body,
        )

    def announcement(self, voter: Voter) -> BeginQuorumEpochRequest:
        """Returns the announcement of our leadership to a replica; only a controller with that id and directory accepts
        it.
        """
        return BeginQuorumEpochRequest(
            cluster_id=self.identity.cluster_id,
            epoch=self.epoch,
            leader_id=self.identity.node_id,
            voter=voter.key,
            endpoints=self.identity.endpoints,
        )

    def respond_to_change(
        self, change: PendingChange, error: ErrorCode, message: str | None = None
    ) -> None:
        """Answers the request for a change of voters, unless it has been answered already."""
        token, change.token = change.token, None
        if token is None:
            return
        cls = change.response_class
        if issubclass(cls, UpdateVoterResponse):
            self.reply(token, self.make_response(cls, error))
        else:
            self.reply(token, cls(error=int(error), message=message))

    def reply(self, token: int, response: AnyResponse) -> None:
        self._replies.append(Reply(token, response))
        self.has_effects, self.is_drained = True, False

    def send(self, peer: Peer, request: Request, now: float) -> int:
        """Sends a request; returns the token of its response."""
        wait = request.max_wait if isinstance(request, FetchRequest) else 0.0
        patience = wait + self.timeouts.patience
        token = self.requests.sent(peer, self.log.end_offset, patience, now)
        self._sends.append(Send(token, peer, request, self.timeouts.request))
        self.has_effects, self.is_drained = True, False
        return token

    def next_discovery(self, now: float) -> Peer | None:
        """Returns the next server that may know the leader, in rotation; None while all back off."""
        self._refresh_voters()
        peers = self._servers
        for _ in peers:
            peer = peers[self._next_discovery % len(peers)]
            self._next_discovery += 1
            if self.requests.is_ready(peer, now):
                return peer
        return None

    def _refresh_voters(self) -> None:
        voters = self.log.history.voters
        if voters is not self._seen_voters:
            others = voters.others(self.key)
            self._voters_before = frozenset(id_ for id_ in voters.ids if id_ < self.key.id)
            self._other_voters = tuple((voter, self.peer_of(voter)) for voter in others)
            self._servers = self._discovery([peer for _, peer in self._other_voters])
            self._seen_voters = voters

    def _discovery(self, voters: list[Peer]) -> list[Peer]:
        """Returns the other known voters, and the bootstrap servers with other addresses."""
        addresses = {(peer.host, peer.port) for peer in voters}
        addresses |= {(endpoint.host, endpoint.port) for endpoint in self.identity.endpoints}
        servers = [p for p in self.identity.bootstrap if (p.host, p.port) not in addresses]
        return voters + servers

    def truncate(self, offset: Offset) -> None:
        ensure(
            self.high_watermark is None or offset >= self.high_watermark,
            "R7 no truncation below the high watermark",
            offset,
            self.high_watermark,
        )
        ensure(not isinstance(self.role, Leader), "a leader never truncates")
        self._truncate_to = offset
        self._will_change_log()
        self.flushed_offset = min(self.flushed_offset, offset)

    @property
    def has_fetched(self) -> bool:
        """Returns whether records of the leader are about to be appended."""
        return self._fetched is not None

    def append_fetched(self, records: bytes | memoryview) -> None:
        self._fetched = FollowerAppend(self.epoch, records)
        self._will_change_log()

    def take_snapshot_chunk(self, chunk: SnapshotChunk) -> None:
        ensure(not isinstance(self.role, Leader), "R9 a leader never loads a snapshot")
        self._snapshot = chunk
        self._will_change_log()
        if chunk.is_last:
            reached = self.high_watermark or 0
            ensure(
                chunk.snapshot_id.offset >= reached,
                "R7 a snapshot does not take back",
                chunk.snapshot_id,
                reached,
            )
            self.flushed_offset = chunk.snapshot_id.offset

    def propose(self, batch: Proposal) -> Offset:
        """Queues a batch of the leader, or lets it wait for others; returns its base offset."""
        base_offset = self.log.end_offset + self._pending_count + self.linger.record_count
        self.linger.add(batch)
        if self.linger.is_full:
            self.end_linger()
        return base_offset

    def end_linger(self) -> None:
        """Queues the waiting proposals."""
        for batch in self.linger.take():
            self._queue(batch)

    def append(self, batch: ControlBatch) -> Offset:
        """Queues a control batch of the leader after all waiting proposals; returns its base offset."""
        self.end_linger()
        base_offset = self.log.end_offset + self._pending_count
        self._queue(batch)
        return base_offset

    def _queue(self, batch: ControlBatch | Proposal) -> None:
        if not self._pending:
            self._pending_base = self.log.end_offset
        self._pending.append(batch)
        self._pending_count += batch.record_count
        self._will_change_log()

    def _will_change_log(self) -> None:
        self.has_effects, self.is_drained, self.has_log_work = True, False, True

    def commit(self, offset: Offset) -> None:
        """Raises the high watermark, which never decreases (R6)."""
        if self.high_watermark is None or offset > self.high_watermark:
            self.high_watermark = self._committed = offset
            self.has_effects = True

    def take(self) -> Ready | None:
        """Returns all effects and clears them; None if there are none."""
        election = None if self.election == self._persisted else self._persist()
        self.has_effects = False
        if self.is_drained and self._committed is None and election is None:
            return None
        append = self._take_append() if self.has_log_work else None
        ready = Ready(
            election,
            self._truncate_to,
            self._snapshot,
            append,
            append is not None and self.can_vote,
            tuple(self._replies),
            tuple(self._sends),
            self._committed,
        )
        self._truncate_to = self._snapshot = self._fetched = self._committed = None
        self._replies.clear()
        self._sends.clear()
        self.is_drained, self.has_log_work = True, False
        return ready

    def _persist(self) -> ElectionState:
        election = self.election
        ensure(
            election.epoch >= self._persisted.epoch,
            "R2 epochs never go back",
            election,
            self._persisted,
        )
        self._persisted = election
        return election

    def _take_append(self) -> LeaderAppend | FollowerAppend | None:
        if self._fetched is not None:
            ensure(not self._pending, "a follower proposes nothing")
            return self._fetched
        if not self._pending:
            return None
        append = LeaderAppend(Offset(self._pending_base), self.epoch, tuple(self._pending))
        self._pending, self._pending_count = [], 0
        return append
