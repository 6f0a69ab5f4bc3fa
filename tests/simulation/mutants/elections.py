"""Mutants of epochs, votes, pre-votes and of requests by non-voters."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from math import inf
from typing import Any
from unittest import mock

from tests.simulation.mutants.mutant import Mutant, both
from tests.simulation.node import SimNode
from trimaran.quorum.raft import core, elections, leader_state, leading, roles, state
from trimaran.quorum.raft.messages import VoteResponse
from trimaran.quorum.raft.ready import Ready
from trimaran.quorum.raft.roles import Prospective, Role
from trimaran.quorum.raft.types import ElectionState, ReplicaKey
from trimaran.quorum.raft.voters import VoterSet
from trimaran.wire.errors import ErrorCode

Patch = AbstractContextManager[Any]


def _counts_itself_twice() -> Patch:
    def is_majority(self: VoterSet, node_ids: Any) -> bool:
        return len(self.by_id.keys() & set(node_ids)) + 1 >= self.majority

    return mock.patch.object(VoterSet, "is_majority", is_majority)


def _votes_in_past_epochs() -> Patch:
    """A node answers vote requests of stale epochs."""
    real = elections._refusal

    def refusal(raft: state.State, cluster_id: Any, sender: int, epoch: int) -> Any:
        error = real(raft, cluster_id, sender, epoch)
        return None if error is ErrorCode.FENCED_LEADER_EPOCH and epoch > 0 else error

    return mock.patch.object(elections, "_refusal", refusal)


def _epochs_without_a_vote_are_not_written() -> Patch:
    def persist(self: SimNode, ready: Ready) -> None:
        assert ready.election is not None
        if ready.election.voted is not None or ready.election.leader_id >= 0:
            self.disk.save(ready.election)

    return mock.patch.object(SimNode, "_persist", persist)


def _vote_file_is_written_late() -> Patch:
    """Messages leave before the vote file is on disk."""

    def persist(self: SimNode, ready: Ready) -> None:
        assert ready.election is not None
        before = getattr(self.disk, "late", None)
        if before is not None:
            self.disk.save(before)
        self.disk.late = ready.election  # type: ignore[attr-defined]

    return mock.patch.object(SimNode, "_persist", persist)


def _vote_is_forgotten_at_restart() -> Patch:
    first = core._first_role

    def first_role(identity: Any, log: Any, election: ElectionState, *rest: Any) -> Role:
        return first(identity, log, election._replace(voted=None), *rest)

    return mock.patch.object(core, "_first_role", first_role)


def _no_pre_vote() -> Patch:
    """KIP-996: a node that was cut off raises the epoch despite a healthy leader."""

    def go_on(raft: state.State, now: float) -> None:
        if isinstance(raft.role, Prospective):
            elections.become_candidate(raft, now)
        elif raft.voters.is_majority(raft.role.granted):  # type: ignore[union-attr]
            leading.become_leader(raft, raft.role.granted, now)  # type: ignore[union-attr]

    return mock.patch.object(elections, "_advance_if_granted", go_on)


def _pre_votes_beside_a_leader() -> Patch:
    return mock.patch.object(roles, "_grants_pre_vote", return_value=True)


def _votes_beside_a_leader() -> Patch:
    real = roles.grants

    def grants(role: Role, candidate: ReplicaKey, up_to_date: bool, pre_vote: bool) -> bool:
        return up_to_date or real(role, candidate, up_to_date, pre_vote)

    return mock.patch.object(elections, "grants", grants)


def _refusals_count_as_votes() -> Patch:
    real = elections.on_vote_response

    def on_vote_response(raft: state.State, voter: Any, response: VoteResponse, now: float) -> None:
        real(raft, voter, replace(response, granted=True), now)

    return mock.patch.object(elections, "on_vote_response", on_vote_response)


def _believes_other_clusters() -> Patch:
    return both(
        mock.patch("trimaran.quorum.raft.elections.is_our_cluster", return_value=True),
        mock.patch("trimaran.quorum.raft.refusals.is_our_cluster", return_value=True),
    )


def _believes_any_epoch() -> Patch:
    return both(
        mock.patch.object(elections, "EPOCH_JUMP_MAX", 1 << 40),
        mock.patch.object(elections, "EPOCH_LIMIT", 1 << 40),
    )


def _observers_keep_a_leader_in_office() -> Patch:
    """Fetches of observers count for check-quorum."""

    def update_check_quorum(
        self: leader_state.LeaderState, replica: ReplicaKey, now: float
    ) -> None:
        self.check_deadline = min(self.check_deadline, inf) and now + self.timeouts.check_quorum

    return mock.patch.object(leader_state.LeaderState, "update_check_quorum", update_check_quorum)


def _looks_for_no_leader() -> Patch:
    return mock.patch.object(state.State, "next_discovery", return_value=None)


def _no_request_expires() -> Patch:
    return mock.patch("trimaran.quorum.raft.requests.RequestManager.expire", return_value=None)


ELECTIONS = (
    Mutant("counts itself twice", _counts_itself_twice, ("R1", "R3", "R4", "R5", "R6", "R12")),
    Mutant("votes in past epochs", _votes_in_past_epochs, ("R1", "R3", "R12", "update")),
    Mutant("epochs without a vote not written", _epochs_without_a_vote_are_not_written, ("R2",)),
    Mutant("vote file written late", _vote_file_is_written_late, ("R2",)),
    Mutant("vote forgotten at restart", _vote_is_forgotten_at_restart, ("R1", "R3", "update")),
    Mutant("no pre-vote", _no_pre_vote, ("R12",)),
    Mutant("pre-votes beside a leader", _pre_votes_beside_a_leader, ("R12",)),
    Mutant("votes beside a leader", _votes_beside_a_leader, ("R1", "R3", "R12")),
    Mutant("refusals count as votes", _refusals_count_as_votes, ("R1", "R3", "R5", "R12")),
    Mutant("believes other clusters", _believes_other_clusters, ("hostile", "R1")),
    Mutant("believes any epoch", _believes_any_epoch, ("hostile",)),
    Mutant("observers keep a leader in office", _observers_keep_a_leader_in_office, ("R11",)),
    Mutant("looks for no leader", _looks_for_no_leader, ("L1",)),
    Mutant("no request expires", _no_request_expires, ("L1",)),
)
