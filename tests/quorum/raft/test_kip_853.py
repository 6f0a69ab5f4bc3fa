"""KIP-853 (changes of voters), a test for each rule of the leader that is not in a transcript.

| rule | where |
|---|---|
| a voter set counts once it is appended; the response waits for the commit | transcript voter_add |
| bootstrap voters are repeated in the log | transcript voter_add |
| a truncated voter set no longer counts | transcript voter_truncated, `test_voters` |
| a removed voter continues as an observer | transcript voter_remove |
| a leader that removes itself leads, without counting itself, until the commit | transcript voter_remove_leader, R10 |
| votes of and for voters that our set does not know | transcript voter_stale |
| a voter reports its new endpoints | transcript voter_update |
| kraft.version 0 becomes 1 | transcript voter_upgrade |
| automatic join | transcript voter_join |
| one change at a time, overlapping majorities, in every run of the simulation | R10 |
| refusals, and the order of checks | here |
"""

from __future__ import annotations

import pytest

from tests.quorum.raft.test_core import Talk, fetch, vote
from tests.simulation.storage import SimLog
from trimaran.quorum.raft import messages as core
from trimaran.quorum.raft.roles import Leader
from trimaran.quorum.raft.types import NO_DIRECTORY, Identity, ReplicaKey, VoterEndpoint
from trimaran.quorum.raft.voters import Voter, VoterSet
from trimaran.wire.errors import ErrorCode


def key(node_id: int, directory: int | None = None) -> ReplicaKey:
    return ReplicaKey(node_id, bytes([directory or node_id]) * 16)


def endpoints(name: str = "C") -> tuple[VoterEndpoint, ...]:
    return (VoterEndpoint(name, "host", 9093),)


SET = VoterSet.of(Voter(key(i), endpoints(), 0, 1) for i in (1, 2, 3))
ME = Identity(
    1, key(1).directory_id, "ours", endpoints=endpoints(), listener="C", is_controller=True
)


def dynamic() -> Talk:
    log = SimLog()
    log.format(SET)
    return Talk(log, me=ME)


def committed() -> Talk:
    """Returns a leader whose voter set is committed."""
    talk = dynamic().lead()
    end, epoch = talk.log.end_offset, talk.raft.epoch
    talk.ask(fetch(replica=key(2), fetch_offset=end, last_fetched_epoch=epoch))
    assert talk.raft.high_watermark == end
    return talk


def add(node_id: int = 4, **changes: object) -> core.AddVoterRequest:
    plain = core.AddVoterRequest(cluster_id="ours", voter=key(node_id), endpoints=endpoints())
    return plain._replace(**changes)  # type: ignore[arg-type]


def remove(voter: ReplicaKey | None) -> core.RemoveVoterRequest:
    return core.RemoveVoterRequest(cluster_id="ours", voter=voter)


def update(**changes: object) -> core.UpdateVoterRequest:
    plain = core.UpdateVoterRequest(
        cluster_id="ours",
        epoch=1,
        voter=key(2),
        endpoints=endpoints(),
        kraft_version_min=0,
        kraft_version_max=1,
    )
    return plain._replace(**changes)  # type: ignore[arg-type]


def refused(talk: Talk, request: core.Request) -> ErrorCode:
    voters = talk.log.history.voters
    answer = talk.ask(request)
    assert answer is not None
    assert talk.log.history.voters == voters, "a refused change changes nothing"
    return ErrorCode(answer.error)


@pytest.mark.parametrize("request_", [add(), remove(key(2)), update(epoch=0)])
def test_only_the_leader_changes_voters(request_):
    assert refused(dynamic(), request_) is ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("request_", [add(cluster_id="theirs"), update(cluster_id="theirs")])
def test_request_of_another_cluster_changes_nothing(request_):
    assert refused(committed(), request_) is ErrorCode.INCONSISTENT_CLUSTER_ID


@pytest.mark.parametrize("request_", [add(), remove(key(2)), update()])
def test_no_change_before_first_commit_of_epoch(request_):
    """The bug of single-server changes in Raft's dissertation: R10."""
    assert refused(dynamic().lead(), request_) is ErrorCode.REQUEST_TIMED_OUT


@pytest.mark.parametrize(
    "request_", [add(), add(5), remove(key(2)), remove(key(3)), update(kraft_version_max=2)]
)
def test_no_change_while_another_is_under_way(request_):
    talk = committed()
    assert talk.ask(remove(key(3))) is None
    assert refused(talk, request_) is ErrorCode.REQUEST_TIMED_OUT


def test_existing_voter_is_not_added_with_another_directory():
    assert refused(committed(), add(2)) is ErrorCode.DUPLICATE_VOTER
    assert refused(committed(), add(voter=key(2, 9))) is ErrorCode.DUPLICATE_VOTER


@pytest.mark.parametrize(
    "request_",
    [
        add(voter=None),
        add(voter=ReplicaKey(4, NO_DIRECTORY)),
        add(voter=ReplicaKey(-1, bytes([4]) * 16)),
        add(endpoints=()),
        add(endpoints=endpoints("OTHER")),
        remove(None),
        remove(ReplicaKey(2, NO_DIRECTORY)),
        update(voter=None),
        update(endpoints=endpoints("OTHER")),
        update(kraft_version_min=2, kraft_version_max=1),
        update(kraft_version_min=2, kraft_version_max=2),
    ],
    ids=str,
)
def test_impossible_voter_is_an_invalid_request(request_):
    assert refused(committed(), request_) is ErrorCode.INVALID_REQUEST


def test_only_voter_with_same_directory_is_removed():
    assert refused(committed(), remove(key(4))) is ErrorCode.VOTER_NOT_FOUND
    assert refused(committed(), remove(key(2, 9))) is ErrorCode.VOTER_NOT_FOUND


def test_only_voter_with_same_directory_is_updated():
    assert refused(committed(), update(voter=key(2, 9))) is ErrorCode.VOTER_NOT_FOUND


def test_new_voter_is_queried_for_versions_first():
    talk = committed()
    assert talk.ask(add()) is None
    assert isinstance(talk.sends[-1], core.ApiVersionsRequest)
    assert talk.log.history.voters == SET


@pytest.mark.parametrize(
    ("versions", "error"),
    [
        (core.ApiVersionsResponse(kraft_versions=None), ErrorCode.INVALID_REQUEST),
        (core.ApiVersionsResponse(kraft_versions=(0, 0)), ErrorCode.INVALID_REQUEST),
        (core.ApiVersionsResponse(error=35), ErrorCode.REQUEST_TIMED_OUT),
        # the node supports the level, but has never fetched
        (core.ApiVersionsResponse(kraft_versions=(0, 1)), ErrorCode.REQUEST_TIMED_OUT),
    ],
    ids=str,
)
def test_new_voter_must_support_level_and_catch_up(versions, error):
    talk = committed()
    talk.ask(add())
    talk.answer(versions)
    assert talk.replies[-1].error == error
    assert talk.log.history.voters == SET


def test_change_without_commit_times_out():
    """The change may still be committed later: the response only means that the outcome is unknown."""
    talk = committed()
    talk.ask(remove(key(3)))
    talk.now += 2.0
    talk.raft.handle_timeout(talk.now)
    talk._drain()
    assert talk.replies[-1].error == ErrorCode.REQUEST_TIMED_OUT
    assert talk.log.history.voters.ids == (1, 2)


def test_leader_losing_epoch_refuses_ongoing_change():
    talk = committed()
    talk.ask(remove(key(3)))
    talk.ask(vote(epoch=7, candidate=key(2), voter=key(1), last_epoch=6, end_offset=99))
    answers = [reply for reply in talk.replies if isinstance(reply, core.RemoveVoterResponse)]
    assert [answer.error for answer in answers] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_new_voter_set_determines_majority_at_once():
    talk = committed()
    talk.ask(remove(key(3)))
    assert isinstance(talk.raft.role, Leader)
    assert talk.raft.role.leader_state.voter_set.majority == 2
    assert set(talk.raft.role.leader_state.voters) == {1, 2}
