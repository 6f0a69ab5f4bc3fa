"""A follower's check of its entry in the voter set (KIP-853), and its reaction to the response.

The transcripts voter_join, voter_update and voter_upgrade show it at length.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from tests.quorum.raft.test_changing import dynamic, endpoints, key
from tests.quorum.raft.test_core import BEGIN, ME, VOTERS, Talk, fetched, follower_of_2, log_of
from trimaran.quorum.raft import messages as core
from trimaran.quorum.raft.roles import Follower
from trimaran.quorum.raft.types import ElectionState, Identity, Timeouts
from trimaran.wire.errors import ErrorCode

TIMES = Timeouts()
TOLD = replace(ME, endpoints=endpoints(1), listener="C")
STRANGER = Identity(
    4,
    key(4).directory_id,
    "ours",
    endpoints=endpoints(4),
    listener="C",
    is_controller=True,
    auto_join=True,
)


def joiner() -> Talk:
    """Returns a controller that wants to vote and has just requested it."""
    log, _ = dynamic(1, 2, 3)
    talk = Talk(log, me=STRANGER)
    talk.ask(BEGIN._replace(endpoints=endpoints(2)))
    recheck_voters(talk)
    assert isinstance(talk.sends[-1], core.AddVoterRequest)
    return talk


def recheck_voters(talk: Talk) -> None:
    """Lets the leader respond until the follower checks the voters again."""
    until = talk.raft.role.next_voter_check
    while talk.now < until:
        talk.now = min(talk.now + 1.0, until)
        talk.answer(fetched(high_watermark=talk.log.end_offset))


@pytest.mark.parametrize(
    ("error", "asks_on"),
    [
        (ErrorCode.NONE, True),
        (ErrorCode.DUPLICATE_VOTER, True),
        (ErrorCode.VOTER_NOT_FOUND, True),
        (ErrorCode.REQUEST_TIMED_OUT, True),
        (ErrorCode.UNSUPPORTED_VERSION, False),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, False),
    ],
)
def test_joining_node_keeps_fetching_unless_finally_refused(error, asks_on):
    talk = joiner()
    count = len(talk.sent)
    talk.answer(core.AddVoterResponse(error=int(error)))
    to_leader = [exchange.request for exchange in talk.sent[count:] if exchange.to.id == 2]
    assert bool(to_leader) == asks_on
    assert all(isinstance(request, core.FetchRequest) for request in to_leader)


def test_successful_join_request_resets_the_backoff():
    talk = joiner()
    until = talk.raft.role.next_voter_check
    talk.answer(core.AddVoterResponse())
    talk.now = until - 0.01
    talk.fail(next(sent.token for sent in reversed(talk.sent) if sent.to.id == 2))
    while not isinstance(talk.sends[-1], core.AddVoterRequest):
        if talk.sent[-1].to.id != 2:
            talk.fail(talk.tokens[-1])
        talk.at(talk.raft.deadline())
    talk.answer(core.AddVoterResponse())
    assert isinstance(talk.sends[-1], core.FetchRequest)
    failed_at, count = talk.now, len(talk.sent)
    talk.fail(talk.tokens[-1])
    for sent in talk.sent[count:]:
        talk.fail(sent.token)
    count = len(talk.sent)
    talk.at(failed_at + TIMES.retry_backoff)
    assert 2 in [sent.to.id for sent in talk.sent[count:]]


@pytest.mark.parametrize(
    "answer_",
    [
        core.UpdateVoterResponse(epoch=3, leader_id=2),
        core.UpdateVoterResponse(error=int(ErrorCode.UNSUPPORTED_VERSION)),
    ],
    ids=str,
)
def test_static_voter_updates_each_leader_once(answer_):
    """This includes a leader that is too old to support the request."""
    talk = follower_of_2(me=TOLD)
    recheck_voters(talk)
    assert isinstance(talk.sends[-1], core.UpdateVoterRequest)
    talk.answer(answer_)
    role = talk.raft.role
    assert isinstance(role, Follower)
    assert role.deadline == talk.now + TIMES.fetch, "the leader has answered"
    recheck_voters(talk)
    told = [send for send in talk.sends if isinstance(send, core.UpdateVoterRequest)]
    assert len(told) == 1


def test_voter_with_lost_data_updates_without_deadline():
    log = log_of((2, 1))
    log.refetch_end = 8
    talk = Talk(log, ElectionState(1), TOLD)
    talk.ask(BEGIN)
    recheck_voters(talk)
    assert isinstance(talk.sends[-1], core.UpdateVoterRequest)
    talk.answer(core.UpdateVoterResponse(epoch=3, leader_id=2))
    assert talk.raft.role.deadline == inf


def test_update_answer_keeps_succession_delays():
    """A response to a fetch does the same: simultaneous candidates would split the vote."""
    me = Identity(3, bytes([3]) * 16, "ours", VOTERS, endpoints=endpoints(3), listener="C")
    talk = follower_of_2(me=me)
    recheck_voters(talk)
    talk.answer(core.UpdateVoterResponse(epoch=3, leader_id=2))
    assert talk.raft.role.deadline == pytest.approx(talk.now + TIMES.fetch + TIMES.succession_step)


def test_static_quorum_accepts_no_joiner():
    talk = follower_of_2(me=replace(STRANGER, voters=VOTERS))
    recheck_voters(talk)
    assert isinstance(talk.sends[-1], core.FetchRequest)


def test_broker_does_not_maintain_its_voter_entry():
    assert not Identity(7, endpoints=endpoints(7)).maintains_voter
    assert not Identity(7, is_controller=True).maintains_voter
    assert STRANGER.maintains_voter
