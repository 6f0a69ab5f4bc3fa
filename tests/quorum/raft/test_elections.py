"""Rules of votes, of the starts and ends of epochs, and of candidacies, one by one.

The rules of the papers are in `test_figure_2`, `test_kip_595` and `test_kip_996`.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from tests.quorum.raft.test_changing import dynamic, key
from tests.quorum.raft.test_core import (
    BEGIN,
    END,
    ME,
    VOTERS,
    Talk,
    follower_of_2,
    log_of,
    vote,
)
from trimaran.quorum.raft import messages as core
from trimaran.quorum.raft.roles import (
    Candidate,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Unattached,
)
from trimaran.quorum.raft.types import (
    EPOCH_JUMP_MAX,
    EPOCH_LIMIT,
    ElectionState,
    Identity,
    Peer,
    ReplicaKey,
    VoterEndpoint,
)
from trimaran.wire.errors import ErrorCode

OBSERVER = Identity(7, bytes([7]) * 16, "ours", VOTERS)
FENCED = int(ErrorCode.FENCED_LEADER_EPOCH)


def stand(talk: Talk, role: type = Prospective) -> Talk:
    """Lets time pass until the core requests pre-votes or votes."""
    while not isinstance(talk.raft.role, Prospective):
        talk.at(talk.raft.deadline())
    if role is Candidate:
        talk.answer(core.VoteResponse(epoch=talk.raft.epoch, granted=True))
    assert isinstance(talk.raft.role, role)
    return talk


def asked_for_votes(talk: Talk) -> dict[int, int]:
    """Returns the token of the last request to each other voter."""
    return {
        exchange.to.id: exchange.token
        for exchange in talk.sent
        if isinstance(exchange.request, core.VoteRequest)
    }


# --- accepted and refused requests


@pytest.mark.parametrize(
    ("ours", "theirs", "code"),
    [
        (0, EPOCH_JUMP_MAX, ErrorCode.NONE),
        (0, EPOCH_JUMP_MAX + 1, ErrorCode.INVALID_REQUEST),
        (9, EPOCH_JUMP_MAX + 9, ErrorCode.NONE),
        (EPOCH_LIMIT - 2, EPOCH_LIMIT - 1, ErrorCode.NONE),
        (EPOCH_LIMIT - 1, EPOCH_LIMIT, ErrorCode.INVALID_REQUEST),
    ],
)
def test_only_reachable_epochs_are_believed(ours, theirs, code):
    talk = Talk(election=ElectionState(ours))
    assert talk.ask(vote(epoch=theirs)).error == code
    assert talk.raft.epoch == (ours if code else theirs)


def test_candidate_without_id_is_refused():
    """In a dynamic quorum our set may be the older one, so requests of an unknown candidate are accepted; no node has
    this id.
    """
    log, me = dynamic(1, 2, 3)
    asked = vote(candidate=ReplicaKey(-1), voter=key(1))
    assert Talk(log, me=me).ask(asked).error == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("voters", "code"), [({}, ErrorCode.NONE), ({2: VOTERS[2]}, ErrorCode.INVALID_REQUEST)]
)
def test_node_without_voters_believes_any_leader(voters, code):
    me = Identity(7, bytes([7]) * 16, "ours", voters, bootstrap=(Peer(-2, "boot", 9),))
    talk = Talk(me=me)
    claim = BEGIN._replace(leader_id=8, endpoints=(VoterEndpoint("C", "there", 8),))
    assert talk.ask(claim).error == code
    assert talk.raft.leader_peer == (None if code else Peer(8, "there", 8))


def test_node_without_cluster_id_accepts_any_cluster():
    me = Identity(1, bytes([1]) * 16, None, VOTERS)
    assert Talk(me=me).ask(vote()).granted


def test_claim_from_another_cluster_is_refused():
    claim = BEGIN._replace(leader_id=3, cluster_id="theirs")
    assert follower_of_2().ask(claim).error == ErrorCode.INCONSISTENT_CLUSTER_ID


def test_no_vote_is_granted_in_led_epoch():
    """This holds although the node has no address of the leader."""
    assert not Talk(election=ElectionState(5, 8)).ask(vote(epoch=5)).granted


def test_newer_epoch_keeps_the_remaining_wait():
    """Otherwise candidates whose logs are behind would keep all others from becoming candidates."""
    talk = Talk(log_of((3, 1)), ElectionState(4))
    deadline = talk.raft.role.deadline
    talk.now = deadline / 2
    assert not talk.ask(vote(epoch=5)).granted
    assert (talk.raft.epoch, talk.raft.role.deadline) == (5, deadline)


# --- claims about the leader in responses


@pytest.mark.parametrize(
    ("leader_id", "hint", "known", "peer"),
    [
        (2, None, 2, VOTERS[2]),
        (2, Peer(2, "moved", 9), 2, Peer(2, "moved", 9)),
        (2, Peer(2), 2, VOTERS[2]),
        (2, Peer(3, "elsewhere", 9), 2, VOTERS[2]),
        (8, None, 8, None),
        (-1, None, None, None),
        (-1, Peer(-1, "nowhere", 9), None, None),
        (-5, None, None, None),
        (1, None, 1, VOTERS[1]),
    ],
)
def test_answer_of_newer_epoch_names_its_leader(leader_id, hint, known, peer):
    talk = Talk(election=ElectionState(5, 3))
    talk.answer(core.FetchResponse(error=FENCED, epoch=8, leader_id=leader_id, leader=hint))
    assert (talk.raft.epoch, talk.raft.leader_id) == (8, known)
    assert talk.raft.leader_peer == peer
    assert isinstance(talk.raft.role, Unattached if known != 2 else Follower)


def test_newer_epoch_is_used_in_next_request():
    me = Identity(1, bytes([1]) * 16, "ours", {i: VOTERS[i] for i in (1, 2)})
    talk = Talk(me=me, election=ElectionState(5))
    talk.answer(core.FetchResponse(error=FENCED, epoch=8))
    assert isinstance(talk.sends[-1], core.FetchRequest)
    assert talk.sends[-1].epoch == 8


def test_repeated_leader_announcement_changes_nothing_for_follower():
    talk = follower_of_2()
    before, asked = talk.raft.role, len(talk.sent)
    talk.now = 1.0
    talk.ask(BEGIN)
    assert talk.raft.role == before, "it is no answer to a fetch: its time goes on"
    assert len(talk.sent) == asked


# --- leaders that leave and return


def test_announcing_leader_is_not_gone():
    talk = follower_of_2(high_watermark=0)
    asked = vote(epoch=3, end_offset=9, last_epoch=3, pre_vote=True)
    talk.gone(2)
    assert talk.raft.role.leader_down
    assert talk.ask(asked).granted
    talk.ask(BEGIN)
    assert not talk.ask(asked).granted
    assert talk.raft.role.deadline == talk.now + talk.raft._state.timeouts.fetch


def test_end_of_unknown_epoch_ends_it():
    talk = Talk()
    assert talk.ask(END._replace(successors=(ReplicaKey(3),))).error == 0
    role = talk.raft.role
    assert isinstance(role, Follower)
    assert (role.epoch, role.leader_id, role.leader_down) == (3, 2, True)


@pytest.mark.parametrize("claim", [BEGIN, END])
@pytest.mark.parametrize(("listener", "port"), [("B", 1), ("C", 2), ("D", 1)])
def test_leader_is_reached_by_our_listener(claim, listener, port):
    """The leader's first listener may be the one for TLS while the order of listeners is being changed."""
    me = replace(ME, listener=listener)
    talk = Talk(me=me)
    told = (VoterEndpoint("B", "there", 1), VoterEndpoint("C", "there", 2))
    assert talk.ask(claim._replace(endpoints=told)).error == 0
    assert talk.raft.leader_peer == Peer(2, "there", port)


@pytest.mark.parametrize("claim", [BEGIN, END])
def test_leader_without_address_is_not_followed(claim):
    log, me = dynamic(1, 2, 3)
    talk = Talk(log, me=me)
    assert talk.ask(claim._replace(leader_id=8)).error == 0
    assert isinstance(talk.raft.role, Unattached)
    assert (talk.raft.leader_id, talk.raft.leader_peer) == (8, None)


def test_observer_ignores_succession():
    talk = follower_of_2(me=OBSERVER)
    before = talk.raft.role
    assert before.deadline == inf
    talk.ask(END)
    talk.gone(2)
    assert talk.raft.role == before


@pytest.mark.parametrize("way", ["end", "gone"])
def test_imminent_candidate_does_not_wait_longer_for_resignation(way):
    talk = follower_of_2()
    deadline = talk.raft.role.deadline
    talk.now = deadline - 0.001
    if way == "end":
        talk.ask(END)
    else:
        talk.gone(2)
    assert talk.raft.role.leader_down
    assert talk.raft.role.deadline == deadline


def test_succession_order_survives_exit_of_leader_process():
    talk = follower_of_2()
    talk.ask(END._replace(successors=(ReplicaKey(3), ReplicaKey(1))))
    deadline = talk.raft.role.deadline
    assert deadline == talk.now + talk.raft._state.timeouts.election_backoff_max / 2
    talk.gone(2)
    assert talk.raft.role.deadline == deadline


def test_end_of_another_voter_keeps_the_leader():
    talk = follower_of_2()
    before = talk.raft.role
    talk.gone(3)
    assert talk.raft.role == before


def test_refused_pre_vote_is_repeated_without_leader():
    """The voter refused because it had the leader; it will notice the leader's end as we did."""
    talk = stand(Talk(election=ElectionState(4, 2)))
    refuser = asked_for_votes(talk)[3]
    talk.answer(core.VoteResponse(epoch=4, leader_id=2), refuser)
    talk.gone(3)
    assert asked_for_votes(talk)[3] == refuser, "that another one is gone changes nothing"
    talk.gone(2)
    again = asked_for_votes(talk)[3]
    assert again != refuser
    talk.answer(core.VoteResponse(epoch=4, leader_id=2), again)
    assert asked_for_votes(talk)[3] == again
    talk.at(talk.now + talk.raft._state.timeouts.retry_backoff)
    assert asked_for_votes(talk)[3] != again, "and again after a pause"


# --- lost elections


def test_pauses_after_lost_elections_double():
    talk, pauses = Talk(election=ElectionState(4)), []
    for _ in range(5):
        stand(talk)
        for token in asked_for_votes(talk).values():
            talk.answer(core.VoteResponse(epoch=4), token)
        assert isinstance(talk.raft.role, Unattached)
        pauses.append(talk.raft.role.deadline - talk.now)
    assert pauses == pytest.approx([0.075, 0.15, 0.3, 0.6, 0.75])


def test_won_election_resets_the_backoff():
    talk = stand(Talk(election=ElectionState(4)))
    for _ in range(2):
        for token in asked_for_votes(talk).values():
            talk.answer(core.VoteResponse(epoch=4), token)
        stand(talk)
    for _ in range(2):
        talk.answer(core.VoteResponse(epoch=talk.raft.epoch, granted=True))
    assert isinstance(talk.raft.role, Leader)
    talk.raft.resign(talk.now)
    talk._drain()
    stand(talk)
    for token in asked_for_votes(talk).values():
        talk.answer(core.VoteResponse(epoch=talk.raft.epoch), token)
    assert talk.raft.role.deadline - talk.now == pytest.approx(0.075)


def test_losing_candidate_waits_no_longer_than_planned():
    talk = stand(Talk(election=ElectionState(4)), Candidate)
    deadline = talk.raft.role.deadline
    talk.now = deadline - 0.01
    for token in asked_for_votes(talk).values():
        talk.answer(core.VoteResponse(epoch=5), token)
    assert isinstance(talk.raft.role, Candidate)
    assert talk.raft.role.deadline == deadline


def test_vote_is_requested_again_despite_unflushed_log():
    """A candidate's fetched records are no acknowledgement."""
    log = log_of((5, 1))
    talk = follower_of_2(log)
    entries = log_of((5, 1), (1, 3)).entries[-1:]
    talk.answer(core.FetchResponse(epoch=3, leader_id=2, records=entries))
    talk.gone(2)
    talk.at(talk.raft.role.deadline)
    assert isinstance(talk.raft.role, Prospective)
    talk.fail(asked_for_votes(talk)[3])
    assert talk.raft.deadline() <= talk.now + talk.raft._state.timeouts.retry_backoff


# --- the initial role


@pytest.mark.parametrize("election", [ElectionState(4), ElectionState(4, 2)], ids=str)
@pytest.mark.parametrize("case", ["observer", "lost data"])
def test_ineligible_node_has_no_deadline(election, case):
    log = log_of((2, 1))
    if case == "lost data":
        log.refetch_end = 8
    talk = Talk(log, election, OBSERVER if case == "observer" else ME)
    assert talk.raft.role.deadline == inf


@pytest.mark.parametrize("role", [Unattached(3, 1.0), Follower(3, 1.0, VOTERS[2])], ids=str)
def test_ineligible_node_drops_its_elapsed_deadline(role):
    """Otherwise the driver would call it again without end."""
    talk = Talk(election=ElectionState(3), me=OBSERVER)
    talk.raft._state.become(role)
    talk._drain()
    talk.at(1.0)
    assert talk.raft.role == role._replace(deadline=inf)


def test_single_voter_with_lost_data_does_not_lead():
    """R15: it may have acknowledged the lost data, also to observers."""
    log = log_of((5, 1))
    log.refetch_end = 8
    talk = Talk(log, ElectionState(1), Identity(1, bytes([1]) * 16, "ours", {1: VOTERS[1]}))
    assert isinstance(talk.raft.role, Unattached)


def test_observer_does_not_resign_from_former_leadership():
    """A broker with the id and the disk of a former controller must not raise the epoch by itself."""
    role = Talk(election=ElectionState(4, 7), me=OBSERVER).raft.role
    assert isinstance(role, Unattached)
    assert role.epoch == 4


def test_broker_with_former_leaders_id_ignores_itself():
    log, me = dynamic(1, 2, 3)
    broker = Identity(1, me.directory_id, "ours", endpoints=me.endpoints, listener="C")
    assert isinstance(Talk(log, ElectionState(4, 1), broker).raft.role, Unattached)


# --- shutting down


def test_stopping_node_has_no_candidacy_or_deadline():
    talk = follower_of_2()
    talk.raft.shutdown(talk.now)
    talk._drain()
    talk.answer(core.FetchResponse(epoch=3, leader_id=2, high_watermark=0))
    asked = len(talk.sent)
    for now in (10.0, 100.0):
        talk.at(now)
        assert talk.raft.deadline() == inf
    assert isinstance(talk.raft.role, Follower)
    assert len(talk.sent) == asked


def test_resigned_leader_leaves_its_epoch_while_stopping():
    talk = Talk().lead()
    talk.raft.resign(talk.now)
    talk._drain()
    deadline = talk.raft.role.deadline
    talk.raft.shutdown(talk.now)
    talk._drain()
    while isinstance(talk.raft.role, Resigned):
        assert talk.raft.deadline() <= deadline
        talk.at(talk.raft.deadline())
    assert talk.raft.epoch == 2
