"""Changes of voters, rule by rule (KIP-853): refusals and their codes, when a change takes effect, eligible candidates
and accepted requests.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from tests.quorum.raft.test_core import ME, Talk, fetch, vote
from tests.simulation.storage import SimLog
from trimaran.quorum.raft import messages as core
from trimaran.quorum.raft.changing import UpgradeRefused
from trimaran.quorum.raft.core import NotLeader
from trimaran.quorum.raft.leader_state import JOINING_SECONDS
from trimaran.quorum.raft.requests import CONNECTIONS_MAX
from trimaran.quorum.raft.roles import Leader, Resigned
from trimaran.quorum.raft.types import ElectionState, Identity, ReplicaKey, Timeouts, VoterEndpoint
from trimaran.quorum.raft.voters import Voter, VoterSet
from trimaran.quorum.replica.status import status_of
from trimaran.wire.errors import ErrorCode


def key(node_id: int, directory: int | None = None) -> ReplicaKey:
    return ReplicaKey(node_id, bytes([directory or node_id]) * 16)


def endpoints(node_id: int, host: str = "test") -> tuple[VoterEndpoint, ...]:
    return (VoterEndpoint("C", host, node_id),)


def dynamic(*ids: int) -> tuple[SimLog, Identity]:
    """Returns a directory formatted with these voters, and node 1."""
    log = SimLog()
    log.format(VoterSet.of(Voter(key(i), endpoints(i), 0, 1) for i in ids))
    me = Identity(
        1, key(1).directory_id, "ours", endpoints=endpoints(1), listener="C", is_controller=True
    )
    return log, me


def leader_of(*ids: int) -> Talk:
    log, me = dynamic(*ids)
    talk = Talk(log, me=me)
    if len(ids) > 1:
        talk.lead()
        for other in ids[1:]:
            talk.ask(fetched(other, talk))
    else:
        talk.raft.flushed(talk.log.end_offset, talk.now)
        talk._drain()
    return talk


def fetched(node_id: int, talk: Talk, directory: int | None = None) -> core.FetchRequest:
    """Returns a fetch of a replica that has everything."""
    end = talk.log.end_offset
    return fetch(
        epoch=talk.raft.epoch,
        replica=key(node_id, directory),
        fetch_offset=end,
        last_fetched_epoch=talk.log.last_epoch,
        high_watermark=end,
        max_wait=0.0,
    )


def add(node_id: int, **changes: object) -> core.AddVoterRequest:
    plain = core.AddVoterRequest(
        cluster_id="ours", voter=key(node_id), endpoints=endpoints(node_id)
    )
    return plain._replace(**changes)  # type: ignore[arg-type]


def remove(node_id: int, **changes: object) -> core.RemoveVoterRequest:
    return core.RemoveVoterRequest(cluster_id="ours", voter=key(node_id))._replace(**changes)  # type: ignore[arg-type]


def update(node_id: int, epoch: int, **changes: object) -> core.UpdateVoterRequest:
    plain = core.UpdateVoterRequest(
        cluster_id="ours",
        epoch=epoch,
        voter=key(node_id),
        endpoints=endpoints(node_id, "moved"),
        kraft_version_min=0,
        kraft_version_max=1,
    )
    return plain._replace(**changes)  # type: ignore[arg-type]


def agree(talk: Talk, versions: tuple[int, int] = (0, 1)) -> None:
    """Lets the queried endpoint confirm that it is the voter."""
    talk.answer(core.ApiVersionsResponse(kraft_versions=versions))
    if isinstance(talk.sends[-1], core.BeginQuorumEpochRequest):
        talk.answer(core.BeginQuorumEpochResponse(epoch=talk.raft.epoch, leader_id=1))


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (add(4, cluster_id="theirs"), ErrorCode.INCONSISTENT_CLUSTER_ID),
        (add(4, voter=None), ErrorCode.INVALID_REQUEST),
        (add(4, voter=ReplicaKey(4)), ErrorCode.INVALID_REQUEST),
        (add(4, endpoints=()), ErrorCode.INVALID_REQUEST),
        (add(4, endpoints=(VoterEndpoint("OTHER", "h", 1),)), ErrorCode.INVALID_REQUEST),
        (add(2), ErrorCode.DUPLICATE_VOTER),
        (add(2, voter=key(2, 9)), ErrorCode.DUPLICATE_VOTER),
        (remove(2, cluster_id="theirs"), ErrorCode.INCONSISTENT_CLUSTER_ID),
        (remove(2, voter=None), ErrorCode.INVALID_REQUEST),
        (remove(2, voter=ReplicaKey(2)), ErrorCode.INVALID_REQUEST),
        (remove(7), ErrorCode.VOTER_NOT_FOUND),
        (remove(2, voter=key(2, 9)), ErrorCode.VOTER_NOT_FOUND),
    ],
)
def test_impossible_change_is_refused_without_effect(request_, code):
    talk = leader_of(1, 2, 3)
    end = talk.log.end_offset
    assert talk.ask(request_).error == code
    assert (talk.log.end_offset, talk.log.history.voters.ids) == (end, (1, 2, 3))


def test_update_without_change_is_not_written():
    """Otherwise a repeated request would fill every log of the quorum."""
    talk = leader_of(1, 2, 3)
    end = talk.log.end_offset
    same = update(2, talk.raft.epoch, endpoints=talk.log.history.voters.get(2).endpoints)
    known = talk.log.history.voters.get(2)
    same = same._replace(
        kraft_version_min=known.kraft_version_min, kraft_version_max=known.kraft_version_max
    )
    assert talk.ask(same).error == 0
    assert talk.log.end_offset == end


@pytest.mark.parametrize("error", [9999, -9999, int(ErrorCode.UNKNOWN_SERVER_ERROR)])
def test_joiner_answering_with_error_is_refused(error):
    talk = leader_of(1, 2, 3)
    talk.ask(add(4))
    talk.answer(core.ApiVersionsResponse(error=error, kraft_versions=(0, 1)))
    assert [a.error for a in talk.replies] == [ErrorCode.REQUEST_TIMED_OUT]


def test_connections_of_failed_joiners_are_bounded():
    talk = leader_of(1, 2, 3)
    for node_id in range(1000, 1000 + 3 * CONNECTIONS_MAX):
        talk.ask(add(4, voter=ReplicaKey(node_id, bytes([4]) * 16)))
        talk.raft.request_failed(talk.tokens[-1], talk.now)
        talk._drain()
        talk.now += 0.01
    assert len(talk.raft._state.requests._connections) <= CONNECTIONS_MAX


def test_only_a_leader_changes_voters():
    log, me = dynamic(1, 2, 3)
    talk = Talk(log, me=me)
    for request in (add(4), remove(2), update(2, 0)):
        assert talk.ask(request).error == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_static_quorum_takes_voters_from_configuration():
    talk = Talk(me=replace(ME, listener="C")).lead()
    talk.ask(fetch(fetch_offset=1, last_fetched_epoch=1, max_wait=0.0))
    assert talk.ask(add(4)).error == ErrorCode.UNSUPPORTED_VERSION
    assert talk.ask(remove(2)).error == ErrorCode.UNSUPPORTED_VERSION


def test_voters_change_only_after_epochs_first_commit():
    """The bug of the first Raft papers: a leader begins a change while a change of an earlier leader may still take
    effect.
    """
    log, me = dynamic(1, 2, 3)
    talk = Talk(log, me=me).lead()
    assert talk.raft.role.leader_state.high_watermark is None
    for request in (add(4), remove(3), update(2, 1)):
        assert talk.ask(request).error == ErrorCode.REQUEST_TIMED_OUT


def test_second_voter_change_is_refused_meanwhile():
    talk = leader_of(1, 2, 3)
    assert talk.ask(remove(3)) is None
    assert talk.ask(remove(2)).error == ErrorCode.REQUEST_TIMED_OUT
    assert talk.ask(add(4)).error == ErrorCode.REQUEST_TIMED_OUT
    assert talk.ask(update(2, 1)).error == ErrorCode.REQUEST_TIMED_OUT
    talk.raft.flushed(talk.log.end_offset, talk.now)
    talk._drain()
    talk.ask(fetched(2, talk))
    assert [a.error for a in talk.replies if isinstance(a, core.RemoveVoterResponse)] == [0]
    assert talk.ask(remove(2)) is None


def test_unconfirmed_change_times_out_and_stays():
    talk = leader_of(1, 2, 3)
    talk.ask(remove(3))
    talk.now = talk.raft.deadline()
    talk.raft.handle_timeout(talk.now)
    talk._drain()
    for _ in range(5):
        if any(isinstance(a, core.RemoveVoterResponse) for a in talk.replies):
            break
        talk.now = talk.raft.deadline()
        talk.raft.handle_timeout(talk.now)
        talk._drain()
    assert [a.error for a in talk.replies if isinstance(a, core.RemoveVoterResponse)] == [
        ErrorCode.REQUEST_TIMED_OUT
    ]
    assert talk.log.history.voters.ids == (1, 2)
    assert talk.ask(add(4)).error == ErrorCode.REQUEST_TIMED_OUT, "it is still not committed"


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (core.ApiVersionsResponse(kraft_versions=(0, 1)), None),
        (core.ApiVersionsResponse(kraft_versions=(1, 1)), None),
        (core.ApiVersionsResponse(kraft_versions=(0, 0)), ErrorCode.INVALID_REQUEST),
        (core.ApiVersionsResponse(kraft_versions=None), ErrorCode.INVALID_REQUEST),
        (core.ApiVersionsResponse(error=35, kraft_versions=(0, 1)), ErrorCode.REQUEST_TIMED_OUT),
        (None, ErrorCode.REQUEST_TIMED_OUT),
    ],
)
def test_new_voter_is_queried_for_versions(answer, code):
    talk = leader_of(1, 2, 3)
    talk.ask(fetched(4, talk))
    assert talk.ask(add(4)) is None
    assert isinstance(talk.sends[-1], core.ApiVersionsRequest)
    if answer is None:
        talk.raft.request_failed(talk.tokens[-1], talk.now)
        talk._drain()
    else:
        talk.answer(answer)
    if code is None:
        assert 4 not in talk.log.history.voters.by_id, "it is asked who it is first"
        talk.answer(core.BeginQuorumEpochResponse(epoch=1, leader_id=1))
    answers = [a.error for a in talk.replies if isinstance(a, core.AddVoterResponse)]
    assert answers == ([] if code is None else [code])
    assert (4 in talk.log.history.voters.by_id) == (code is None)


def test_missing_kraft_version_means_static_quorum_only():
    talk = leader_of(1, 2, 3)
    talk.ask(add(4))
    talk.answer(core.ApiVersionsResponse(kraft_versions=None))
    assert "(min: 0, max: 0) doesn't support the finalized version 1" in talk.replies[-1].message


def test_failed_request_to_another_node_is_ignored():
    talk = leader_of(1, 2, 3)
    assert talk.ask(add(4)) is None
    announced = next(
        exchange
        for exchange in talk.sent
        if isinstance(exchange.request, core.BeginQuorumEpochRequest)
    )
    talk.replies.clear()
    talk.fail(announced.token)
    assert talk.replies == []
    assert talk.raft.role.leader_state.change is not None


def test_no_change_begins_while_new_voter_is_queried():
    talk = leader_of(1, 2, 3)
    talk.ask(fetched(4, talk))
    assert talk.ask(add(4)) is None
    assert talk.ask(update(2, 1)).error == ErrorCode.REQUEST_TIMED_OUT


def test_unreachable_new_voter_is_retried_after_shortest_pause():
    """This applies after it has responded: earlier failures are forgotten."""
    talk = leader_of(1, 2, 3)
    pause = talk.raft._state.timeouts.retry_backoff

    def fails() -> None:
        assert talk.ask(add(4)) is None
        talk.fail(talk.tokens[-1])

    fails()
    assert talk.ask(add(4)).error == ErrorCode.REQUEST_TIMED_OUT, "it is left alone a while"
    talk.now += pause
    assert talk.ask(add(4)) is None
    agree(talk)
    fails()
    talk.now += pause
    assert talk.ask(add(4)) is None


def test_change_is_committed_with_its_own_record():
    """The change is not committed together with earlier records that were still lingering."""
    log, me = dynamic(1, 2, 3)
    talk = Talk(log, me=me, timeouts=Timeouts(append_linger=0.025)).lead()
    talk.ask(fetched(2, talk))
    end = talk.log.end_offset
    talk.raft.propose(b"x", 2, talk.raft.epoch)
    assert talk.ask(remove(3)) is None
    assert talk.log.end_offset == end + 3
    talk.flush()
    request = fetched(2, talk)
    talk.ask(request._replace(fetch_offset=end + 2))
    assert talk.raft.high_watermark == end + 2
    assert not [reply for reply in talk.replies if isinstance(reply, core.RemoveVoterResponse)]
    talk.ask(request)
    assert [reply for reply in talk.replies if isinstance(reply, core.RemoveVoterResponse)]


def test_early_answer_is_not_repeated_at_epoch_end():
    talk = leader_of(1, 2, 3)
    talk.ask(fetched(4, talk))
    talk.ask(add(4, ack_when_committed=False))
    agree(talk)
    talk.ask(vote(epoch=9, candidate=key(2), voter=key(1), last_epoch=1, end_offset=99))
    assert not [reply for reply in talk.replies if isinstance(reply, core.AddVoterResponse)]


def test_caught_up_present_observer_joins():
    talk = leader_of(1)
    everything = fetched(2, talk)

    def is_added() -> bool:
        talk.ask(add(2))
        agree(talk)
        return 2 in talk.log.history.voters.by_id

    talk.ask(everything._replace(fetch_offset=0, last_fetched_epoch=0))
    assert not is_added(), "it has fetched, but never all"
    talk.ask(everything)
    talk.now += JOINING_SECONDS + 1
    assert not is_added(), "it has had all, but was not seen since"
    talk.ask(everything)
    assert is_added()


def test_voter_that_updates_itself_is_alive():
    """A voter's update postpones the leader's resignation like a fetch (R11)."""
    talk = leader_of(1, 2, 3)
    talk.now += 1.0
    talk.ask(update(2, 1))
    agree(talk)
    leader_state = talk.raft.role.leader_state
    assert leader_state.check_deadline == talk.now + leader_state.timeouts.check_quorum


def test_static_update_waits_for_commit_of_epoch():
    talk = Talk(me=replace(ME, listener="C", endpoints=endpoints(1))).lead()
    assert talk.ask(update(2, 1)).error == ErrorCode.REQUEST_TIMED_OUT


@pytest.mark.parametrize("directory", [None, 9])
def test_new_voter_must_catch_up_with_named_directory(directory):
    talk = leader_of(1, 2, 3)
    if directory is not None:
        talk.ask(fetched(4, talk, directory))
    talk.ask(add(4))
    agree(talk)
    assert talk.replies[-1].error == ErrorCode.REQUEST_TIMED_OUT
    assert "lagging behind" in talk.replies[-1].message


def test_early_answer_is_sent_at_the_append():
    talk = leader_of(1, 2, 3)
    talk.ask(fetched(4, talk))
    talk.ask(add(4, ack_when_committed=False))
    agree(talk)
    assert [a.error for a in talk.replies if isinstance(a, core.AddVoterResponse)] == [0]
    assert talk.ask(remove(4)).error == ErrorCode.REQUEST_TIMED_OUT, "it is not committed"


def test_voter_change_ends_with_its_epoch():
    talk = leader_of(1, 2, 3)
    talk.ask(remove(3))
    talk.ask(vote(epoch=9, candidate=key(2), voter=key(1), last_epoch=1, end_offset=99))
    refused = [a.error for a in talk.replies if isinstance(a, core.RemoveVoterResponse)]
    assert refused == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_removed_leader_describes_itself_as_observer():
    """Kafka lists it among the observers while it continues to lead, at any time."""
    talk = leader_of(1, 2, 3)
    before = status_of(talk.raft, talk.now, wall_ms=5000)
    assert ([voter.id for voter in before.voters], before.observers) == ([1, 2, 3], ())
    talk.ask(remove(1))
    talk.now += 1000
    after = status_of(talk.raft, talk.now, wall_ms=1_005_000)
    assert [voter.id for voter in after.voters] == [2, 3]
    (own,) = after.observers
    assert (own.id, own.directory_id) == (1, key(1).directory_id)
    assert (own.log_end_offset, own.last_fetch_ms) == (talk.log.end_offset, 1_005_000)


def test_last_voter_is_not_removed():
    talk = leader_of(1)
    assert talk.ask(remove(1)).error == ErrorCode.VOTER_NOT_FOUND


def test_leader_needs_majority_once_there_are_two():
    talk = leader_of(1)
    assert talk.raft.role.leader_state.check_deadline == float("inf")
    talk.ask(fetched(2, talk))
    talk.ask(add(2))
    agree(talk)
    assert talk.raft.role.leader_state.check_deadline < float("inf")
    talk.now += 10
    talk.raft.handle_timeout(talk.now)
    talk._drain()
    assert isinstance(talk.raft.role, Resigned)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"cluster_id": "theirs"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"epoch": 0}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"epoch": 2}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"voter": None}, ErrorCode.INVALID_REQUEST),
        ({"voter": key(2, 9)}, ErrorCode.VOTER_NOT_FOUND),
        ({"voter": key(7)}, ErrorCode.VOTER_NOT_FOUND),
        ({"endpoints": ()}, ErrorCode.INVALID_REQUEST),
        ({"kraft_version_min": -1}, ErrorCode.INVALID_REQUEST),
        ({"kraft_version_min": 1, "kraft_version_max": 0}, ErrorCode.INVALID_REQUEST),
        ({"kraft_version_max": 0}, ErrorCode.INVALID_REQUEST),
        ({"voter": key(1)}, ErrorCode.INVALID_REQUEST),
        ({"endpoints": endpoints(2) * 2}, ErrorCode.INVALID_REQUEST),
        ({"endpoints": (*endpoints(2), VoterEndpoint("D", "h", 0))}, ErrorCode.INVALID_REQUEST),
        ({"endpoints": endpoints(2, "h" * 256)}, ErrorCode.INVALID_REQUEST),
        ({"endpoints": endpoints(2, "h h")}, ErrorCode.INVALID_REQUEST),
        (
            {"endpoints": endpoints(2) + tuple(VoterEndpoint(f"L{n}", "h", 1) for n in range(32))},
            ErrorCode.INVALID_REQUEST,
        ),
        ({"kraft_version_min": 1}, ErrorCode.NONE),
        ({"endpoints": endpoints(2, "h" * 255)}, ErrorCode.NONE),
        ({}, ErrorCode.NONE),
    ],
)
def test_voter_updates_get_expected_errors(changes, code):
    talk = leader_of(1, 2, 3)
    request = update(2, 1)._replace(**changes)
    refusal = talk.ask(request)
    if refusal is None:
        agree(talk)
        (refusal,) = talk.replies
        assert talk.log.history.voters.get(2).endpoints == request.endpoints
    else:
        assert talk.log.history.voters.get(2).endpoints == endpoints(2)
    assert refusal.error == code


@pytest.mark.parametrize("kind", ["add", "update"])
@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (None, ErrorCode.REQUEST_TIMED_OUT),
        (ErrorCode.UNSUPPORTED_VERSION, ErrorCode.INVALID_REQUEST),
        (ErrorCode.INVALID_VOTER_KEY, ErrorCode.INVALID_REQUEST),
        (ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST),
        (ErrorCode.INCONSISTENT_CLUSTER_ID, ErrorCode.INCONSISTENT_CLUSTER_ID),
        (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.REQUEST_TIMED_OUT),
    ],
)
def test_endpoint_answered_by_another_node_is_not_written(kind, answer, code):
    """The epoch and leader of the other node are ignored too: it may belong to another cluster."""
    talk = leader_of(1, 2, 3)
    talk.ask(fetched(4, talk))
    before = talk.log.end_offset
    assert talk.ask(add(4) if kind == "add" else update(2, 1)) is None
    talk.answer(core.ApiVersionsResponse(kraft_versions=(0, 1)))
    asked = talk.sends[-1]
    assert (asked.voter, asked.epoch) == (key(4 if kind == "add" else 2), 1)
    talk.replies.clear()
    if answer is None:
        talk.fail(talk.tokens[-1])
    else:
        talk.answer(core.BeginQuorumEpochResponse(error=int(answer), epoch=77, leader_id=9))
    assert [reply.error for reply in talk.replies] == [code]
    assert (talk.log.end_offset, talk.raft.epoch) == (before, 1)
    assert talk.raft.role.leader_state.change is None


def test_silent_endpoint_of_update_is_not_written():
    talk = leader_of(1, 2, 3)
    assert talk.ask(update(2, 1)) is None
    talk.fail(talk.tokens[-1])
    assert [reply.error for reply in talk.replies] == [ErrorCode.REQUEST_TIMED_OUT]
    assert talk.log.history.voters.get(2).endpoints == endpoints(2)


def test_endpoint_answer_after_abandoned_change_is_ignored():
    talk = leader_of(1, 2, 3)
    assert talk.ask(update(2, 1)) is None
    talk.answer(core.ApiVersionsResponse(kraft_versions=(0, 1)))
    token = talk.tokens[-1]
    talk.now += talk.raft._state.timeouts.request - 0.001
    talk.ask(fetched(2, talk))
    talk.ask(fetched(3, talk))
    talk.at(talk.now + 0.001)
    assert talk.raft.role.leader_state.change is None
    talk.answer(core.BeginQuorumEpochResponse(error=74, epoch=77, leader_id=9), token)
    assert talk.raft.epoch == 1


def test_broker_never_becomes_candidate_despite_voter_set():
    log, me = dynamic(1, 2, 3)
    talk = Talk(log, me=replace(me, is_controller=False, endpoints=()))
    assert talk.raft.role.deadline == inf
    talk.at(100.0)
    assert not [send for send in talk.sends if isinstance(send, core.VoteRequest)]
    alone = Talk(dynamic(1)[0], me=replace(me, is_controller=False, endpoints=()))
    alone.at(100.0)
    assert not isinstance(alone.raft.role, Leader)


def test_voter_with_another_directory_is_an_observer():
    talk = leader_of(1, 2, 3)
    end = talk.raft.role.leader_state.high_watermark
    talk.raft.propose(b"x", 1, 1)
    talk._drain()
    talk.raft.flushed(talk.log.end_offset, talk.now)
    talk._drain()
    talk.ask(fetched(2, talk, directory=9))
    assert talk.raft.role.leader_state.high_watermark == end
    assert key(2, 9) in talk.raft.role.leader_state.observers
    talk.ask(fetched(2, talk))
    assert talk.raft.role.leader_state.high_watermark == end + 1


def test_unknown_candidate_may_get_vote_for_its_directory():
    """Our voter set may be older than the candidate's."""
    log, me = dynamic(1, 2, 3)
    talk = Talk(log, me=me)
    other = vote(candidate=key(8), voter=key(1, 9))
    assert talk.ask(other).error == ErrorCode.INVALID_VOTER_KEY
    granted = talk.ask(other._replace(voter=key(1)))
    assert (granted.error, granted.granted) == (0, True)
    assert not talk.ask(other._replace(voter=key(1), candidate=key(8, 9))).granted
    begin = core.BeginQuorumEpochRequest(
        cluster_id="ours", epoch=6, leader_id=8, voter=key(1, 9), endpoints=endpoints(8)
    )
    assert talk.ask(begin).error == ErrorCode.INVALID_VOTER_KEY
    assert talk.raft.leader_peer is not None
    assert talk.raft.leader_peer.port == 8


def test_upgrade_needs_the_epoch_and_every_voter():
    talk = Talk(me=replace(ME, listener="C", endpoints=endpoints(1))).lead()
    with pytest.raises(NotLeader):
        talk.raft.upgrade_kraft_version(1, 7, validate_only=False)
    with pytest.raises(UpgradeRefused, match="not all"):
        talk.raft.upgrade_kraft_version(1, 1, validate_only=False)
    talk.ask(fetch(fetch_offset=1, last_fetched_epoch=1, max_wait=0.0))
    for other in (2, 3):
        assert talk.ask(update(other, 1)) is None
        agree(talk)
        assert talk.replies[-1].error == 0
    with pytest.raises(UpgradeRefused, match=r"from version 0 to 2$"):
        talk.raft.upgrade_kraft_version(2, 1, validate_only=False)
    talk.raft.upgrade_kraft_version(1, 1, validate_only=True)
    assert not talk.log.history.is_dynamic
    talk.raft.upgrade_kraft_version(1, 1, validate_only=False)
    talk.raft.upgrade_kraft_version(1, 1, validate_only=False)
    talk._drain()
    history = talk.log.history
    assert (history.kraft_version, history.voters.keys) == (1, {key(1), key(2), key(3)})
    with pytest.raises(UpgradeRefused, match="downgrade"):
        talk.raft.upgrade_kraft_version(0, 1, validate_only=False)


@pytest.mark.parametrize("lacking", ["a version", "a directory"])
def test_upgrade_needs_version_and_directory_of_each(lacking):
    directory = bytes(16) if lacking == "a directory" else ME.directory_id
    me = replace(ME, directory_id=directory, listener="C", endpoints=endpoints(1))
    talk = Talk(me=me).lead()
    talk.ask(fetch(fetch_offset=1, last_fetched_epoch=1, max_wait=0.0))
    talk.ask(update(2, 1))
    talk.ask(update(3, 1, kraft_version_max=0 if lacking == "a version" else 1))
    with pytest.raises(UpgradeRefused, match="not all"):
        talk.raft.upgrade_kraft_version(1, 1, validate_only=False)


def test_reached_level_is_confirmed_without_a_record():
    """This includes a leader that has not raised the level itself."""
    talk = leader_of(1, 2, 3)
    end = talk.log.end_offset
    talk.raft.upgrade_kraft_version(1, talk.raft.epoch, validate_only=False)
    talk._drain()
    assert talk.log.end_offset == end
    with pytest.raises(UpgradeRefused, match=r"from version 1 to 0 because .* downgrade"):
        talk.raft.upgrade_kraft_version(0, talk.raft.epoch, validate_only=False)


def test_upgrade_keeps_fetch_progress_of_voters():
    """The voters have directories from then on."""
    talk = Talk(me=replace(ME, listener="C", endpoints=endpoints(1))).lead()
    talk.ask(fetch(fetch_offset=1, last_fetched_epoch=1, max_wait=0.0))
    for other in (2, 3):
        talk.ask(update(other, 1))
        agree(talk)
    talk.raft.upgrade_kraft_version(1, 1, validate_only=False)
    talk._drain()
    progress = talk.raft.role.leader_state.voters[2]
    assert (progress.key, progress.end_offset) == (key(2), 1)


def test_follower_upgrades_nothing():
    talk = Talk(election=ElectionState(5, 2))
    with pytest.raises(NotLeader):
        talk.raft.upgrade_kraft_version(1, 5, validate_only=False)


def test_removed_voter_is_candidate_until_removal_commits():
    """No other node could be elected, because its log is the longest. Once the change is committed it is an
    observer.
    """
    talk = leader_of(1, 2)
    talk.ask(remove(1))
    restarted = Talk(talk.log, ElectionState(1, 1), replace(talk.raft.identity))
    assert isinstance(restarted.raft.role, Resigned)
    restarted.now = restarted.raft.deadline()
    restarted.raft.handle_timeout(restarted.now)
    restarted._drain()
    asked = [send for send in restarted.sends if isinstance(send, core.VoteRequest)]
    assert asked, "it asks 2 for its vote"
    for _ in range(2):  # the pre-vote, then the vote
        restarted.answer(core.VoteResponse(epoch=restarted.raft.epoch, granted=True))
    assert isinstance(restarted.raft.role, Leader)
    restarted.raft.flushed(restarted.log.end_offset, restarted.now)
    restarted._drain()
    assert restarted.raft.role.leader_state.high_watermark is None, "it is no part of the majority"
    restarted.ask(fetched(2, restarted))
    assert isinstance(restarted.raft.role, Resigned), "the set without it is committed"


def test_permanently_removed_voter_is_no_candidate():
    log, _ = dynamic(1, 2)
    history = log.history
    history.set_voters(3, history.voters.remove(key(1)))
    assert history.can_be_candidate(key(1), None)
    assert history.can_be_candidate(key(1), 3)
    assert not history.can_be_candidate(key(1), 4)
    assert not history.can_be_candidate(key(7), None)
