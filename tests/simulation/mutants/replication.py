"""Mutants of promises, of the watermark and of truncation."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from tests.simulation.mutants.mutant import Mutant, both
from tests.simulation.node import SimNode
from tests.simulation.storage import SimLog
from trimaran.quorum.raft import (
    changing,
    core,
    elections,
    following,
    leader_state,
    leading,
    requests,
    roles,
    state,
)
from trimaran.quorum.raft.log_view import ON_OUR_LOG
from trimaran.quorum.raft.messages import VoteRequest
from trimaran.quorum.raft.ready import Ready
from trimaran.quorum.raft.roles import Candidate, Follower, Leader, Role, Unattached
from trimaran.quorum.raft.types import ElectionState, OffsetAndEpoch
from trimaran.quorum.raft.voters import QuorumHistory


def _vote_file_not_written() -> AbstractContextManager[Any]:
    """etcd #14370: a node sends a message before its state is durable, and forgets that state in a crash. The check of
    R2 is disabled, so that the other checks are tested.
    """

    def persist(self: SimNode, ready: Ready) -> None:
        if ready.election is not None and ready.election.voted is None:
            self.disk.save(ready.election)

    return both(
        mock.patch.object(SimNode, "_persist", persist),
        mock.patch("tests.simulation.checker.Checker.sends", return_value=None),
    )


def _fetch_before_flush() -> AbstractContextManager[Any]:
    """KAFKA-10533."""
    return mock.patch.object(following, "_is_flushed", return_value=True)


def _leader_counts_unflushed() -> AbstractContextManager[Any]:
    def after_append(raft: state.State, now: float) -> None:
        if isinstance(raft.role, Leader):
            raft.flushed_offset = raft.log.end_offset
            leading.on_flushed(raft, raft.role, now)
            leading._wake(raft, raft.role, now)

    return mock.patch.object(leading, "after_append", after_append)


def _commits_older_epochs() -> AbstractContextManager[Any]:
    """Raft, figure 8: the high watermark passes records of earlier epochs by counting replicas."""

    def advance(self: leader_state.LeaderState) -> bool:
        ends = sorted((p.end_offset for p in self.voters.values()), reverse=True)
        offset = leader_state.majority_offset(ends)
        if offset <= (self.high_watermark or 0):
            return False
        self.high_watermark = offset
        return True

    return mock.patch.object(leader_state.LeaderState, "_advance", advance)


def _truncates_too_far() -> AbstractContextManager[Any]:
    """KAFKA-12460, without the assertion that stops it."""

    def truncate(self: state.State, offset: int) -> None:
        self._truncate_to = max(self.log.start_offset, offset - 4)
        self._will_change_log()
        self.flushed_offset = min(self.flushed_offset, self._truncate_to)

    return mock.patch.object(state.State, "truncate", truncate)


def _one_replica_commits() -> AbstractContextManager[Any]:
    return mock.patch.object(leader_state, "majority_offset", lambda descending: descending[0])


def votes_twice() -> AbstractContextManager[Any]:
    def grants(role: Role, _candidate: Any, up_to_date: bool, pre_vote: bool) -> bool:
        return up_to_date and (pre_vote or isinstance(role, Unattached | roles.Prospective))

    return mock.patch.object(elections, "grants", grants)


def _votes_for_shorter_logs() -> AbstractContextManager[Any]:
    judge = elections._handle_vote

    def lenient(raft: state.State, request: VoteRequest, now: float) -> Any:
        longest = request._replace(end_offset=max(request.end_offset, raft.log.end_offset))
        if raft.log.last_epoch < request.epoch:
            longest = longest._replace(last_epoch=max(request.last_epoch, raft.log.last_epoch))
        return judge(raft, longest, now)

    return mock.patch.object(elections, "_handle_vote", lenient)


def _minority_elects() -> AbstractContextManager[Any]:
    def majority(self: Any) -> int:
        return (len(self) + 1) // 2 if len(self) % 2 == 0 else max(1, len(self) // 2)

    return mock.patch("trimaran.quorum.raft.voters.VoterSet.majority", property(majority))


def _never_resigns() -> AbstractContextManager[Any]:
    """KAFKA-15489."""

    def poll(raft: state.State, leader: Leader, now: float) -> None:
        leader.leader_state.check_deadline = float("inf")
        real(raft, leader, now)

    real = leading.poll_leader
    return mock.patch.object(leading, "poll_leader", poll)


def _leads_again_after_restart() -> AbstractContextManager[Any]:
    """A candidate restarts as a candidate in its old epoch and is elected again, although it lost an unflushed tail."""
    first = core._first_role

    def first_role(
        identity: Any, log: Any, election: ElectionState, timeouts: Any, prng: Any, now: float
    ) -> Role:
        own = election.voted is not None and election.voted.id == identity.node_id
        if (
            log.refetch_end is None
            and own
            and election.epoch > log.last_epoch
            and election.leader_id < 0
        ):
            me = frozenset({identity.node_id})
            return Candidate(election.epoch, now + 1, identity.key, me)
        return first(identity, log, election, timeouts, prng, now)

    def persist(self: SimNode, ready: Ready) -> None:
        # a leader does not store its leadership, because the candidate's vote seems to imply it
        if ready.election is not None and not isinstance(self.raft.role, Leader):
            self.disk.save(ready.election)

    return both(
        mock.patch.object(core, "_first_role", first_role),
        mock.patch.object(SimNode, "_persist", persist),
    )


def _truncates_without_epochs() -> AbstractContextManager[Any]:
    """KAFKA-1211: a follower keeps records that contradict the leader's epochs."""

    def validate(log: Any, offset: int, last_fetched_epoch: int) -> Any:
        found = real(log, offset, last_fetched_epoch)
        if found.diverging and offset <= log.end_offset:
            return ON_OUR_LOG
        return found

    real = leading.validate_fetch
    return mock.patch.object(leading, "validate_fetch", validate)


def _late_answers_count() -> AbstractContextManager[Any]:
    """Redpanda #17731, R13: a response to a request of an earlier role is accepted."""

    def reset(self: requests.RequestManager) -> None:
        for line in self._connections.values():
            line.token, line.expires, line.resume = None, float("inf"), 0.0

    def answered(self: requests.RequestManager, token: int) -> Any:
        sent = self._by_token.get(token)
        line = None if sent is None else self._connections.get(sent.peer.id)
        if line is not None and line.token == token:
            line.token = None
        return sent

    return both(
        mock.patch.object(requests.RequestManager, "reset", reset),
        mock.patch.object(requests.RequestManager, "answered", answered),
        mock.patch.object(requests.RequestManager, "is_waiting", return_value=False),
        mock.patch.object(following, "is_duplicate_response", return_value=False),
    )


def _follower_trusts_watermark() -> AbstractContextManager[Any]:
    """KAFKA-14704: the leader's watermark is applied to our log before the logs are compared."""

    def fed(raft: state.State, role: Follower, now: float) -> Follower:
        raft.commit(raft.log.end_offset)
        return real(raft, role, now)

    real = following._reset_fetch_timeout
    return mock.patch.object(following, "_reset_fetch_timeout", fed)


def _flush_claims_truncated() -> AbstractContextManager[Any]:
    """A flush that began before a truncation reports later appends as flushed."""

    def finish(self: SimLog, claim: list[int]) -> None:
        claimed = max(claim[0], claim[1])
        self.flushing.remove(claim)
        durable = min(claim[0], self.end_offset)
        real_flushed = max(self.flushed_offset, durable)
        self.flushed_offset = min(claimed, self.end_offset)
        self.really_flushed = real_flushed  # type: ignore[attr-defined]

    def begin(self: SimLog) -> list[int]:
        claim = [self.end_offset, self.end_offset]
        self.flushing.append(claim)
        return claim

    def durable(self: SimLog, offset: int) -> int | None:
        really = getattr(self, "really_flushed", 0)
        return self.chain_at(offset) if offset <= really or offset == self.start_offset else None

    def truncate(self: SimLog, offset: int) -> int:
        end = real_truncate(self, offset)
        self.really_flushed = min(getattr(self, "really_flushed", 0), end)  # type: ignore[attr-defined]
        return end

    real_truncate = SimLog.truncate_to
    return both(
        mock.patch.object(SimLog, "finish_flush", finish),
        mock.patch.object(SimLog, "begin_flush", begin),
        mock.patch.object(SimLog, "durable_chain_at", durable),
        mock.patch.object(SimLog, "truncate_to", truncate),
    )


def _snapshot_above_watermark() -> AbstractContextManager[Any]:
    """Similar to KAFKA-17713: a snapshot is taken at the end of the log instead of the committed offset."""

    def maybe_snapshot(self: SimNode) -> None:
        if self.log.end_offset - self.log.start_offset >= 6:
            end = self.log.end_offset
            self.world.checker.snapshots(self, end, self.log.end_chain)
            if self.metadata is not None:
                self.metadata.save(OffsetAndEpoch(end, self.log.last_epoch))
            self.log.add_snapshot(OffsetAndEpoch(end, self.log.last_epoch), b"0|0||")

    return mock.patch.object(SimNode, "_maybe_snapshot", maybe_snapshot)


def _two_changes_at_once() -> AbstractContextManager[Any]:
    """A second change of voters is made before the first is committed."""
    return mock.patch.object(changing, "_is_committed", return_value=True)


def _voted_out_leader_counts_itself() -> AbstractContextManager[Any]:
    def advance(self: leader_state.LeaderState) -> bool:
        replicas = {id(p): p for p in [*self.voters.values(), self.own]}.values()
        ends = sorted((p.end_offset for p in replicas), reverse=True)
        offset = leader_state.majority_offset(ends)
        if offset <= max(self.start_offset, self.high_watermark or 0):
            return False
        self.high_watermark = offset
        return True

    return mock.patch.object(leader_state.LeaderState, "_advance", advance)


def _truncated_set_counts() -> AbstractContextManager[Any]:
    """The voter set comes from a truncated record."""
    return mock.patch.object(QuorumHistory, "truncate_to", return_value=None)


def _voted_out_leader_goes_at_once() -> AbstractContextManager[Any]:
    """A removed leader resigns before the set without it is committed, and never becomes a candidate again: perhaps no
    electable node is left.
    """

    def can_be_candidate(self: QuorumHistory, key: Any, _committed: int | None) -> bool:
        return key in self.voters

    return both(
        mock.patch.object(changing, "is_voted_out", lambda raft, _leader: not raft.is_voter),
        mock.patch.object(QuorumHistory, "can_be_candidate", can_be_candidate),
    )


def _busy_loop() -> AbstractContextManager[Any]:
    """No backoff after failures."""
    return mock.patch("trimaran.quorum.raft.requests.RequestManager.back_off", return_value=None)


REPLICATION = (
    Mutant("vote file not written", _vote_file_not_written, ("R1", "R2", "R3")),
    Mutant("fetch before flush", _fetch_before_flush, ("R6",)),
    Mutant("leader counts unflushed", _leader_counts_unflushed, ("R6",)),
    Mutant("commits older epochs by counting", _commits_older_epochs, ("R5", "R6", "R7", "R8")),
    Mutant("truncates below the watermark", _truncates_too_far, ("R7",)),
    Mutant("one replica commits", _one_replica_commits, ("R5", "R6")),
    Mutant("votes twice", votes_twice, ("R1", "R3", "R12", "transition", "update")),
    Mutant("votes for shorter logs", _votes_for_shorter_logs, ("R5", "R7")),
    Mutant("minority elects", _minority_elects, ("R1", "R3", "R4", "R5", "R6", "R7", "R12")),
    Mutant("never resigns", _never_resigns, ("R11",)),
    Mutant("leads again after restart", _leads_again_after_restart, ("R2", "R4", "R5", "R6")),
    Mutant("keeps diverged records", _truncates_without_epochs, ("R4", "R6", "R8")),
    Mutant("follower trusts the watermark", _follower_trusts_watermark, ("R6", "R7", "R8")),
    Mutant("flush claims what was truncated", _flush_claims_truncated, ("R4", "R5", "R6")),
    Mutant("snapshot above the watermark", _snapshot_above_watermark, ("R9",)),
    Mutant("late answers count", _late_answers_count, ("R4", "R7", "R8", "L1")),
    Mutant("two changes of voters at once", _two_changes_at_once, ("R10", "L1")),
    Mutant("voted-out leader counts itself", _voted_out_leader_counts_itself, ("R5", "R6")),
    Mutant("truncated voters count", _truncated_set_counts, ("control", "R6", "R10", "L1")),
    Mutant("voted-out leader goes at once", _voted_out_leader_goes_at_once, ("L1",)),
    Mutant("busy loop", _busy_loop, ("L1",)),
)
