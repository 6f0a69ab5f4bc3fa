"""Figure 2 of the Raft paper (Ongaro, Ousterhout 2014), a test for each sentence that a pull-based Raft still has.

KIP-595 reverses AppendEntries: followers fetch. Therefore "sends AppendEntries" means "answers Fetch", nextIndex and
matchIndex are the fetch offset, and an empty AppendEntries is BeginQuorumEpoch. Each test names the transcript in
`testdata/` that shows its sentence at length.
"""

from __future__ import annotations

import pytest

from tests.quorum.raft.test_core import Talk, fetch, log_of, vote
from trimaran.quorum.raft import messages as core
from trimaran.quorum.raft.core import NotLeader
from trimaran.quorum.raft.roles import Candidate, Follower, Leader, Prospective, Unattached
from trimaran.quorum.raft.types import ElectionState, OffsetAndEpoch, ReplicaKey
from trimaran.wire.errors import ErrorCode

# --- State


def test_election_is_persisted_before_replies():
    """Transcripts: restart_vote, election."""
    talk = Talk()
    talk.raft.receive(1, vote(epoch=5), 0.0)
    ready = talk.raft.ready()
    assert ready is not None
    assert ready.election == ElectionState(5, -1, ReplicaKey(2))
    assert ready.replies, "in one value whose first field is written first"
    assert ready._fields.index("election") < ready._fields.index("replies")


def test_commit_index_starts_at_0_and_only_grows():
    talk = Talk(log_of((3, 1)), ElectionState(1))
    assert talk.raft.high_watermark is None
    talk.lead()
    seen = [talk.raft.high_watermark or 0]
    for offset in (4, 3, 4):
        talk.ask(fetch(epoch=2, fetch_offset=offset, last_fetched_epoch=min(offset - 2, 2)))
        seen.append(talk.raft.high_watermark or 0)
    assert seen == sorted(seen)
    assert seen[-1] == 4


def test_match_index_is_unknown_on_new_leader():
    """Nothing is known of the other logs until they fetch."""
    talk = Talk(log_of((3, 1)), ElectionState(1)).lead()
    assert isinstance(talk.raft.role, Leader)
    assert {talk.raft.role.leader_state.voters[i].end_offset for i in (2, 3)} == {-1}


# --- AppendEntries RPC, receiver implementation: a leader checks fetches


def test_request_of_older_term_is_refused():
    answer = Talk().lead().ask(fetch(epoch=0))
    assert answer is not None
    assert answer.error == ErrorCode.FENCED_LEADER_EPOCH


def test_mismatch_at_prev_log_index_is_refused():
    """Transcript: divergence."""
    talk = Talk(log_of((5, 1)), ElectionState(3)).lead()
    answer = talk.ask(fetch(epoch=4, fetch_offset=6, last_fetched_epoch=2))
    assert isinstance(answer, core.FetchResponse)
    assert answer.diverging == OffsetAndEpoch(5, 1)
    assert answer.read is None


def test_conflicting_entries_are_deleted_with_all_following():
    talk = Talk(log_of((5, 1), (3, 2)), ElectionState(3, 2))
    talk.raft.handle_timeout(0.0)
    answer = core.FetchResponse(epoch=3, leader_id=2, diverging=OffsetAndEpoch(5, 1))
    talk.raft.receive(talk.tokens[-1], answer, 0.0)
    ready = talk.raft.ready()
    assert ready is not None
    assert ready.truncate_to == 5


def test_new_entries_are_appended():
    talk = Talk(log_of((5, 1)), ElectionState(3, 2))
    answer = core.FetchResponse(epoch=3, leader_id=2, high_watermark=2, records=b"new")
    talk.raft.receive(talk.tokens[-1], answer, 0.0)
    ready = talk.raft.ready()
    assert ready is not None
    assert ready.append is not None
    assert ready.append.records == b"new"  # type: ignore[union-attr]


@pytest.mark.parametrize(("leader_commit", "known"), [(2, 2), (5, 5), (99, 5)])
def test_commit_index_is_minimum_of_leaders_and_last(leader_commit, known):
    talk = Talk(log_of((5, 1)), ElectionState(3, 2))
    talk.answer(core.FetchResponse(epoch=3, leader_id=2, high_watermark=leader_commit))
    assert talk.raft.high_watermark == known


# --- RequestVote RPC, receiver implementation


def test_a_vote_of_an_older_term_is_refused():
    answer = Talk(election=ElectionState(7)).ask(vote(epoch=6))
    assert isinstance(answer, core.VoteResponse)
    assert (answer.error, answer.granted) == (ErrorCode.FENCED_LEADER_EPOCH, False)
    assert answer.epoch == 7, "currentTerm, for the candidate to update itself"


@pytest.mark.parametrize(
    ("voted", "candidate", "granted"), [(None, 2, True), (2, 2, True), (3, 2, False)]
)
def test_vote_is_granted_without_conflicting_vote(voted, candidate, granted):
    election = ElectionState(5, -1, None if voted is None else ReplicaKey(voted))
    answer = Talk(election=election).ask(vote(epoch=5, candidate=ReplicaKey(candidate)))
    assert isinstance(answer, core.VoteResponse)
    assert answer.granted == granted


@pytest.mark.parametrize(
    ("last_epoch", "end_offset", "granted"),
    [(2, 8, True), (2, 9, True), (3, 1, True), (2, 7, False), (1, 99, False)],
)
def test_vote_needs_an_up_to_date_log(last_epoch, end_offset, granted):
    """A later last term is more up to date; with equal terms the longer log is (5.4.1)."""
    talk = Talk(log_of((5, 1), (3, 2)), ElectionState(4))
    answer = talk.ask(vote(epoch=5, last_epoch=last_epoch, end_offset=end_offset))
    assert isinstance(answer, core.VoteResponse)
    assert answer.granted == granted


# --- Rules for servers: all


def test_committed_records_are_applied():
    """The core returns the offset; the driver applies (R6 and R8 of the simulation)."""
    talk = Talk(log_of((5, 1)), ElectionState(3, 2))
    answer = core.FetchResponse(epoch=3, leader_id=2, high_watermark=4)
    talk.raft.receive(talk.tokens[-1], answer, 0.0)
    ready = talk.raft.ready()
    assert ready is not None
    assert ready.committed == 4


@pytest.mark.parametrize("way", ["request", "answer"])
def test_higher_term_converts_to_follower(way):
    talk = Talk().lead()
    if way == "request":
        talk.ask(vote(epoch=9, end_offset=9, last_epoch=8))
    else:
        talk.answer(core.BeginQuorumEpochResponse(error=74, epoch=9))
    assert talk.raft.epoch == 9
    assert isinstance(talk.raft.role, Unattached), "without a leader known yet"


# --- Rules for servers: followers


def test_followers_respond_to_rpcs_from_candidates_and_leaders():
    talk = Talk()
    assert isinstance(talk.ask(vote()), core.VoteResponse)
    begin = core.BeginQuorumEpochRequest(cluster_id="ours", epoch=5, leader_id=2, voter=None)
    assert isinstance(talk.ask(begin), core.BeginQuorumEpochResponse)
    assert isinstance(talk.raft.role, Follower)


def test_election_timeout_starts_an_election():
    """A pre-vote precedes the election (test_kip_996). Transcript: election."""
    talk = Talk(election=ElectionState(3, 2))
    talk.now = talk.raft.deadline()
    while not isinstance(talk.raft.role, Prospective):
        assert talk.now <= 2.5, "the fetch timeout and no more"
        talk.raft.handle_timeout(talk.now)
        talk._drain()
        talk.now = max(talk.now, talk.raft.deadline())


def test_granted_vote_resets_the_election_timeout():
    talk = Talk()
    before = talk.raft.deadline()
    talk.ask(vote())
    assert talk.raft.role.deadline > before


# --- Rules for servers: candidates


def stand() -> Talk:
    talk = Talk()
    talk.now = talk.raft.deadline()
    talk.raft.handle_timeout(talk.now)
    talk._drain()
    talk.answer(core.VoteResponse(epoch=0, granted=True))
    return talk


def test_candidate_increments_term_votes_and_requests_votes():
    talk = stand()
    assert isinstance(talk.raft.role, Candidate)
    assert talk.raft.election == ElectionState(1, -1, talk.raft.identity.key)
    asked = [s for s in talk.sends if isinstance(s, core.VoteRequest) and not s.pre_vote]
    assert [request.voter for request in asked] == [ReplicaKey(2), ReplicaKey(3)]
    assert {request.epoch for request in asked} == {1}


def test_a_candidate_resets_its_election_timer():
    talk = stand()
    assert talk.now < talk.raft.role.deadline <= talk.now + 2 * 1.0


def test_votes_of_a_majority_make_a_leader():
    talk = stand()
    talk.answer(core.VoteResponse(epoch=1, granted=True))
    assert isinstance(talk.raft.role, Leader)


def test_candidate_follows_a_new_leader():
    talk = stand()
    talk.ask(core.BeginQuorumEpochRequest(cluster_id="ours", epoch=1, leader_id=2, voter=None))
    assert isinstance(talk.raft.role, Follower)
    assert talk.raft.leader_id == 2


def test_candidate_restarts_after_election_timeout():
    talk = stand()
    talk.now = talk.raft.role.deadline
    talk.raft.handle_timeout(talk.now)
    talk._drain()
    assert isinstance(talk.raft.role, Prospective)


# --- Rules for servers: leaders


def test_elected_leader_notifies_each_server():
    """Transcript: election."""
    talk = Talk().lead()
    told = [s.voter for s in talk.sends if isinstance(s, core.BeginQuorumEpochRequest)]
    assert told == [ReplicaKey(2), ReplicaKey(3)]


def test_command_is_appended_and_answered_after_commit():
    """The driver responds at the high watermark: "ack" and R5 of the simulation."""
    talk = Talk().lead()
    assert talk.raft.propose(b"x", 1, 1) == 1
    ready = talk.raft.ready()
    assert ready is not None
    assert ready.append is not None
    assert ready.committed is None


def test_entries_from_next_index_are_sent():
    talk = Talk(log_of((5, 1)), ElectionState(1)).lead()
    answer = talk.ask(fetch(epoch=2, fetch_offset=2, last_fetched_epoch=1))
    assert isinstance(answer, core.FetchResponse)
    assert answer.read is not None
    assert answer.read.offset == 2


def test_success_updates_match_index():
    talk = Talk(log_of((5, 1)), ElectionState(1)).lead()
    talk.ask(fetch(epoch=2, fetch_offset=2, last_fetched_epoch=1))
    assert isinstance(talk.raft.role, Leader)
    assert talk.raft.role.leader_state.voters[2].end_offset == 2


def test_log_inconsistency_does_not_advance_the_follower():
    talk = Talk(log_of((5, 1)), ElectionState(3)).lead()
    talk.ask(fetch(epoch=4, fetch_offset=6, last_fetched_epoch=2))
    assert isinstance(talk.raft.role, Leader)
    assert talk.raft.role.leader_state.voters[2].end_offset == -1


@pytest.mark.parametrize(("offset", "epoch", "committed"), [(5, 1, None), (6, 2, 6)])
def test_commit_needs_majority_and_current_term(offset, epoch, committed):
    """5.4.2: an older term is never committed by counting replicas. Figure 8 is a mutant of the simulation."""
    talk = Talk(log_of((5, 1)), ElectionState(1)).lead()
    talk.ask(fetch(epoch=2, fetch_offset=offset, last_fetched_epoch=epoch))
    assert talk.raft.high_watermark == committed


def test_only_a_leader_takes_commands():
    with pytest.raises(NotLeader):
        Talk().raft.propose(b"x", 1, 0)


def test_a_retried_vote_is_granted_again():
    """The paper's "Servers retry RPCs": the same request twice gets the same response."""
    talk = Talk()
    first, second = talk.ask(vote()), talk.ask(vote())
    assert first == second
    assert not talk.ask(vote()._replace(candidate=ReplicaKey(3))).granted  # type: ignore[union-attr]
