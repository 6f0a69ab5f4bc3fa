"""KIP-996 (pre-vote), a test for each of its rules. Transcripts: prevote, leader_gone. In every run of the simulation:
R12.
"""

from __future__ import annotations

import pytest

from tests.quorum.raft.test_core import Talk, log_of, vote
from trimaran.quorum.raft import messages as core
from trimaran.quorum.raft.roles import Candidate, Follower, Prospective, Unattached
from trimaran.quorum.raft.types import ElectionState, ReplicaKey
from trimaran.wire.errors import ErrorCode


def ask(talk: Talk, **changes: object) -> bool:
    answer = talk.ask(vote(pre_vote=True, **changes))
    assert isinstance(answer, core.VoteResponse)
    return answer.granted


def begin(epoch: int = 5) -> core.BeginQuorumEpochRequest:
    return core.BeginQuorumEpochRequest(cluster_id="ours", epoch=epoch, leader_id=2, voter=None)


def prospective(election: ElectionState | None = None) -> Talk:
    talk = Talk(election=election)
    while not isinstance(talk.raft.role, Prospective):
        talk.now = talk.raft.deadline()
        talk.raft.handle_timeout(talk.now)
        talk._drain()
    return talk


def test_prospective_sends_pre_votes_without_raising_epoch():
    talk = prospective(ElectionState(4))
    sent = [s for s in talk.sends if isinstance(s, core.VoteRequest)]
    assert {(s.epoch, s.pre_vote) for s in sent} == {(4, True)}
    assert talk.raft.election == ElectionState(4)


def test_prospective_keeps_its_vote_and_leader():
    assert prospective(ElectionState(4, -1, ReplicaKey(3))).raft.election.voted == ReplicaKey(3)
    assert prospective(ElectionState(4, 2)).raft.election.leader_id == 2


def test_majority_of_pre_votes_makes_a_candidate():
    talk = prospective(ElectionState(4))
    talk.answer(core.VoteResponse(epoch=4, granted=True))
    assert isinstance(talk.raft.role, Candidate)
    assert talk.raft.epoch == 5


@pytest.mark.parametrize(
    ("election", "role"), [(ElectionState(4), Unattached), (ElectionState(4, 2), Follower)]
)
def test_lost_pre_vote_returns_to_leader_or_waits(election, role):
    talk = prospective(election)
    tokens = talk.tokens[-2:]
    for token in tokens:
        talk.answer(core.VoteResponse(epoch=4, leader_id=election.leader_id), token)
    assert isinstance(talk.raft.role, role)
    assert talk.raft.epoch == 4


def test_leaderless_voter_may_grant_pre_vote_to_successor():
    """The voter's response names no leader, so there is no contradiction."""
    talk = prospective(ElectionState(4, 2))
    talk.answer(core.VoteResponse(epoch=4, granted=True, leader_id=-1))
    assert isinstance(talk.raft.role, Candidate)


def test_follower_that_fetched_from_leader_refuses_pre_vote():
    talk = Talk(election=ElectionState(5, 2))
    assert ask(talk), "not yet: the leader may be gone since before we started"
    talk.raft.handle_timeout(0.0)
    talk._drain()
    talk.answer(core.FetchResponse(epoch=5, leader_id=2, high_watermark=0))
    assert not ask(talk)


def test_leader_refuses_pre_vote():
    assert not ask(Talk().lead(), epoch=1, last_epoch=1, end_offset=99)


@pytest.mark.parametrize("election", [ElectionState(5), ElectionState(5, -1, ReplicaKey(3))])
def test_other_voters_grant_pre_vote_to_current_log(election):
    assert ask(Talk(election=election))
    assert not ask(Talk(log_of((3, 1)), election), last_epoch=1, end_offset=2)


def test_pre_vote_is_not_a_vote():
    """A pre-vote is not persisted and not binding: two nodes may get one, and the vote may go to a third."""
    talk = Talk(election=ElectionState(5))
    assert ask(talk, candidate=ReplicaKey(2))
    assert ask(talk, candidate=ReplicaKey(3))
    assert talk.raft.election == ElectionState(5)


def test_pre_vote_of_higher_epoch_raises_ours():
    """This holds for any request, because the sender has seen that epoch."""
    talk = Talk(election=ElectionState(4))
    assert ask(talk, epoch=6)
    assert talk.raft.epoch == 6


def test_unsupported_pre_vote_begins_election_at_once():
    talk = prospective(ElectionState(4))
    talk.answer(core.VoteResponse(error=ErrorCode.UNSUPPORTED_VERSION, epoch=4))
    assert isinstance(talk.raft.role, Prospective), (
        "who knows no such version knows no epoch of the answer"
    )
    talk.at(talk.raft.deadline())
    talk.answer(core.VoteResponse(error=ErrorCode.UNSUPPORTED_VERSION))
    assert isinstance(talk.raft.role, Candidate)
    talk.answer(core.VoteResponse(error=ErrorCode.UNSUPPORTED_VERSION))
    assert talk.raft.epoch == 5, "who stands already is told nothing by it"


def test_prospective_follows_an_announced_leader():
    talk = prospective(ElectionState(4))
    talk.ask(begin(epoch=4))
    assert isinstance(talk.raft.role, Follower)
