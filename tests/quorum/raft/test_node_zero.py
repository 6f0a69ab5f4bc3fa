"""Node 0 is an ordinary node, although -1 means no node."""

from __future__ import annotations

import pytest

from tests.quorum.raft.test_changing import add, key, leader_of
from tests.quorum.raft.test_core import Talk, fetch, vote
from tests.quorum.raft.test_elections import stand
from trimaran.quorum.raft import messages as core
from trimaran.quorum.raft.roles import Follower, Unattached, describe
from trimaran.quorum.raft.types import ElectionState, Identity, Peer, ReplicaKey
from trimaran.wire.errors import ErrorCode

VOTERS = {i: Peer(i, "test", i) for i in (0, 1, 2)}
ME = Identity(1, bytes([1]) * 16, "ours", VOTERS)
BEGIN = core.BeginQuorumEpochRequest(cluster_id="ours", epoch=3, leader_id=0, voter=None)


def test_node_zero_gets_votes():
    answer = Talk(me=ME).ask(vote(candidate=ReplicaKey(0)))
    assert isinstance(answer, core.VoteResponse)
    assert answer.granted


def test_node_zero_is_followed_as_leader():
    talk = Talk(me=ME)
    assert talk.ask(BEGIN).error == 0
    assert (talk.raft.leader_id, type(talk.raft.role)) == (0, Follower)


def test_answer_naming_node_zero_is_believed():
    talk = Talk(me=ME, election=ElectionState(5, 2))
    talk.answer(core.FetchResponse(error=int(ErrorCode.FENCED_LEADER_EPOCH), epoch=8, leader_id=0))
    assert (talk.raft.epoch, talk.raft.leader_id) == (8, 0)
    assert talk.raft.leader_peer == VOTERS[0]


@pytest.mark.parametrize(("first", "second"), [(0, 2), (2, 0)])
def test_second_leader_of_epoch_is_refused(first, second):
    talk = Talk(me=ME)
    talk.ask(BEGIN._replace(leader_id=first))
    assert talk.ask(BEGIN._replace(leader_id=second)).error == ErrorCode.INVALID_REQUEST
    assert talk.raft.leader_id == first


def test_fetches_of_node_zero_move_watermark():
    talk = stand(Talk(me=ME))
    for _ in range(2):
        talk.answer(core.VoteResponse(epoch=talk.raft.epoch, granted=True))
    talk.flush()
    talk.ask(fetch(replica=ReplicaKey(0), fetch_offset=1, last_fetched_epoch=1))
    assert talk.raft.high_watermark == 1


def test_node_zero_may_become_voter():
    talk = leader_of(1, 2, 3)
    assert talk.ask(add(4, voter=key(0, 9))) is None, "it is asked for its versions"


def test_node_zero_appears_in_texts():
    assert str(core.FetchResponse(epoch=3, leader_id=0)).endswith("leader=0 hw=-1")
    assert describe(Unattached(3, leader_id=0)) == "Unattached epoch=3 leader=0"
