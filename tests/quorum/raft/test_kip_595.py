"""KIP-595 (Raft by fetching), a test for each rule that is neither one of Raft's own (`test_figure_2`) nor in a
transcript.

| rule | where |
|---|---|
| error codes of Vote, Fetch, FetchSnapshot | `test_core.test_votes_get_expected_errors`, … |
| a follower truncates by the diverging epoch and fetches again | transcript divergence |
| a leader without fetches of a majority resigns | transcript check_quorum, R11 |
| a voter fetches again only after its records are flushed | transcript unflushed, R6 |
| an observer never becomes a candidate and never counts | transcript observer |
| a restarted leader no longer leads | `test_core.test_restart_resigns_leadership_and_drops_candidacy` |
| everything else | here |
"""

from __future__ import annotations

import pytest

from tests.quorum.raft.test_core import Talk, fetch, log_of
from trimaran.quorum.raft import messages as core
from trimaran.quorum.raft.ready import ControlBatch, LeaderAppend, LeaderChange
from trimaran.quorum.raft.roles import Follower, Leader, Prospective, Resigned
from trimaran.quorum.raft.types import ElectionState, ReplicaKey
from trimaran.wire.errors import ErrorCode


def end(*successors: int, epoch: int = 5) -> core.EndQuorumEpochRequest:
    keys = tuple(map(ReplicaKey, successors))
    return core.EndQuorumEpochRequest(cluster_id="ours", epoch=epoch, leader_id=2, successors=keys)


def test_leader_opens_epoch_with_leader_change_record():
    talk = Talk()
    talk.now = talk.raft.deadline()
    talk.raft.handle_timeout(talk.now)
    talk._drain()
    talk.answer(core.VoteResponse(epoch=0, granted=True))
    talk.raft.receive(talk.tokens[-1], core.VoteResponse(epoch=1, granted=True), 0.1)
    ready = talk.raft.ready()
    assert ready is not None
    granting = tuple(sorted({1, 3}))
    change = ControlBatch((LeaderChange(1, (1, 2, 3), granting),))
    assert ready.append == LeaderAppend(0, 1, (change,))


def test_watermark_is_unknown_until_epoch_has_committed():
    talk = Talk(log_of((5, 1)), ElectionState(1)).lead()
    answer = talk.ask(fetch(epoch=2, fetch_offset=0, last_fetched_epoch=0))
    assert isinstance(answer, core.FetchResponse)
    assert answer.high_watermark == -1


def test_fetch_of_non_voter_moves_no_watermark():
    talk = Talk().lead()
    talk.ask(fetch(replica=ReplicaKey(7), fetch_offset=1, last_fetched_epoch=1, max_wait=0.0))
    assert talk.raft.high_watermark is None


def test_non_leader_names_the_leader():
    talk = Talk(election=ElectionState(5, 2))
    answer = talk.ask(fetch(epoch=5))
    assert answer is not None
    assert (answer.error, answer.leader_id) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 2)


def test_begin_quorum_epoch_of_older_epoch_is_fenced():
    talk = Talk(election=ElectionState(5))
    begin = core.BeginQuorumEpochRequest(cluster_id="ours", epoch=4, leader_id=2, voter=None)
    answer = talk.ask(begin)
    assert answer is not None
    assert (answer.error, answer.epoch) == (ErrorCode.FENCED_LEADER_EPOCH, 5)


def test_repeated_begin_quorum_epoch_is_harmless():
    talk = Talk()
    begin = core.BeginQuorumEpochRequest(cluster_id="ours", epoch=4, leader_id=2, voter=None)
    for _ in range(2):
        answer = talk.ask(begin)
        assert answer is not None
        assert answer.error == 0
        assert isinstance(talk.raft.role, Follower)


def test_first_preferred_successor_becomes_candidate_at_once():
    talk = Talk(election=ElectionState(5, 2))
    talk.ask(end(1, 3))
    assert isinstance(talk.raft.role, Prospective)


def test_later_successors_wait_for_the_first():
    talk = Talk(election=ElectionState(5, 2))
    talk.ask(end(3, 1))
    assert isinstance(talk.raft.role, Follower)
    assert talk.now < talk.raft.role.deadline <= talk.now + 1.0


def test_end_quorum_epoch_of_older_epoch_is_fenced():
    talk = Talk(election=ElectionState(5, 2))
    answer = talk.ask(end(1, epoch=4))
    assert answer is not None
    assert answer.error == ErrorCode.FENCED_LEADER_EPOCH
    assert isinstance(talk.raft.role, Follower)


def test_stopping_leader_ranks_successors_by_progress():
    talk = Talk(log_of((5, 1)), ElectionState(1)).lead()
    talk.ask(fetch(epoch=2, replica=ReplicaKey(3), fetch_offset=4, last_fetched_epoch=1))
    talk.ask(fetch(epoch=2, replica=ReplicaKey(2), fetch_offset=2, last_fetched_epoch=1))
    talk.raft.shutdown(talk.now)
    talk._drain()
    ends = [s for s in talk.sends if isinstance(s, core.EndQuorumEpochRequest)]
    assert isinstance(talk.raft.role, Resigned)
    for request in ends:
        assert [key.id for key in request.successors] == [3, 2]


def test_resigned_leader_neither_serves_nor_leads_again():
    talk = Talk().lead()
    talk.raft.resign(talk.now)
    talk._drain()
    answer = talk.ask(fetch())
    assert answer is not None
    assert answer.error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    talk.now = talk.raft.role.deadline
    talk.raft.handle_timeout(talk.now)
    talk._drain()
    assert talk.raft.epoch == 2
    assert not isinstance(talk.raft.role, Leader)


@pytest.mark.parametrize("leader_id", [-1, 2])
def test_answer_of_higher_epoch_is_adopted(leader_id):
    talk = Talk(election=ElectionState(5, 3))
    talk.raft.handle_timeout(0.0)
    talk._drain()
    error = ErrorCode.FENCED_LEADER_EPOCH
    talk.answer(core.FetchResponse(error=error, epoch=8, leader_id=leader_id))
    assert talk.raft.epoch == 8
    assert (talk.raft.leader_id or -1) == leader_id
