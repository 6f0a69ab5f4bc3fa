"""Rules of a fetching node: appends, truncations, targets of requests, and their frequency."""

from __future__ import annotations

from math import inf

import pytest

from tests.quorum.raft.test_changing import dynamic, endpoints, key
from tests.quorum.raft.test_core import (
    BEGIN,
    VOTERS,
    Talk,
    fetched,
    follower_of_2,
    log_of,
    vote,
)
from tests.simulation.storage import Entry, SimLog
from trimaran.quorum.raft import messages as core
from trimaran.quorum.raft.ready import SnapshotChunk, VotersChange
from trimaran.quorum.raft.roles import Follower, Prospective, Unattached
from trimaran.quorum.raft.types import (
    ElectionState,
    Identity,
    OffsetAndEpoch,
    Peer,
    Timeouts,
    VoterEndpoint,
)
from trimaran.quorum.raft.voters import Voter
from trimaran.wire.errors import ErrorCode

OBSERVER = Identity(7, bytes([7]) * 16, "ours", VOTERS)
TWO = Identity(1, bytes([1]) * 16, "ours", {i: VOTERS[i] for i in (1, 2)})
TIMES = Timeouts()


def backs_off(talk: Talk, node_id: int) -> bool:
    return talk.raft._state.requests.is_backing_off(VOTERS[node_id], talk.now)


def targets_since(talk: Talk, since: int = 0) -> list[int]:
    return [sent.to.id for sent in talk.sent[since:]]


def bring(talk: Talk, count: int = 1, **more: object) -> None:
    """Lets the leader respond with a batch."""
    end = talk.log.end_offset
    entry = Entry(end, end + count, 3, end, end)
    talk.answer(fetched(records=[entry], **more))


# --- the watermark


@pytest.mark.parametrize("with_records", [False, True])
@pytest.mark.parametrize(("told", "known"), [(-1, None), (0, 0), (1, 1), (99, None)])
def test_known_watermark_is_limited_by_own_log(with_records, told, known):
    talk = follower_of_2(log_of((5, 1)))
    if with_records:
        bring(talk, high_watermark=told)
    else:
        talk.answer(fetched(high_watermark=told))
    assert talk.raft.high_watermark == (talk.log.end_offset if told == 99 else known)


# --- truncations


def test_log_is_truncated_only_to_committed_offset():
    talk = follower_of_2(log_of((2, 1), (2, 1)), high_watermark=2)
    talk.answer(fetched(diverging=OffsetAndEpoch(2, 1)))
    assert (talk.truncated, talk.log.end_offset) == ([2], 2)


def test_log_without_known_commit_may_become_empty():
    talk = follower_of_2(log_of((2, 1)))
    talk.answer(fetched(diverging=OffsetAndEpoch(0, 0)))
    assert talk.truncated == [0]


# --- snapshots

SNAPSHOT = OffsetAndEpoch(9, 2)
DATA = b"0123456789"


def fetching_snapshot(log: SimLog | None = None) -> Talk:
    talk = follower_of_2(log)
    talk.answer(fetched(snapshot_id=SNAPSHOT))
    assert isinstance(talk.sends[-1], core.FetchSnapshotRequest)
    return talk


def piece(position: int, data: bytes, **changes: object) -> core.FetchSnapshotResponse:
    plain = {"epoch": 3, "leader_id": 2, "snapshot_id": SNAPSHOT, "size": len(DATA)}
    return core.FetchSnapshotResponse(**{**plain, "position": position, "data": data, **changes})  # type: ignore[arg-type]


def test_snapshot_comes_in_pieces_and_replaces_log():
    talk = fetching_snapshot(log_of((2, 1)))
    talk.now = 1.0
    talk.answer(piece(0, DATA[:4]))
    assert talk.chunks == [SnapshotChunk(SNAPSHOT, 0, DATA[:4], False)]
    assert (talk.raft.high_watermark, talk.log.end_offset) == (None, 2)
    assert talk.raft.role.deadline == talk.now + TIMES.fetch, "the leader has answered"
    assert isinstance(talk.sends[-1], core.FetchSnapshotRequest)
    assert talk.sends[-1].position == 4
    talk.answer(piece(4, DATA[4:]))
    assert talk.chunks[1:] == [SnapshotChunk(SNAPSHOT, 4, DATA[4:], True)]
    assert (talk.raft.high_watermark, talk.raft.flushed_offset) == (9, 9)
    onward = talk.sends[-1]
    assert isinstance(onward, core.FetchRequest)
    assert (onward.fetch_offset, onward.last_fetched_epoch) == SNAPSHOT


def test_next_piece_is_requested_after_write():
    talk = fetching_snapshot()
    talk.raft.receive(talk.tokens[-1], piece(0, DATA[:4]), talk.now)
    ready = talk.raft.ready()
    assert ready is not None
    assert ready.snapshot is not None
    assert ready.sends == ()


@pytest.mark.parametrize(
    "answer",
    [
        piece(0, DATA[:4], error=int(ErrorCode.SNAPSHOT_NOT_FOUND)),
        piece(0, DATA[:4], error=int(ErrorCode.POSITION_OUT_OF_RANGE)),
        piece(0, DATA[:4], snapshot_id=OffsetAndEpoch(9, 1)),
        piece(0, DATA[:4], snapshot_id=None),
        piece(1, DATA[:4]),
        piece(0, DATA[:4], size=3),
        piece(0, b""),
    ],
    ids=str,
)
def test_wrong_piece_ends_the_snapshot_fetch(answer):
    talk = fetching_snapshot()
    count = len(talk.sent)
    talk.answer(answer)
    role = talk.raft.role
    assert isinstance(role, Follower)
    assert (talk.chunks, role.snapshot, role.loss.losses) == ([], None, 1)
    assert len(talk.sent) == count, "a pause"
    assert talk.raft.deadline() == role.resume == role.loss.until
    assert role.resume - talk.now == pytest.approx(0.075)
    talk.at(role.resume)
    assert isinstance(talk.sends[-1], core.FetchRequest), "the leader may have another one"
    assert talk.raft.deadline() > talk.now, "and who has asked waits"


@pytest.mark.parametrize(("committed", "taken"), [(8, True), (9, True), (10, False)])
def test_snapshot_behind_committed_offset_is_refused(committed, taken):
    """Another leader's responses have advanced the committed offset meanwhile."""
    talk = fetching_snapshot()
    talk.raft._state.commit(committed)
    talk._drain()
    talk.answer(piece(0, DATA))
    assert bool(talk.chunks) == taken


def test_snapshot_losses_are_counted_until_it_arrives():
    talk = fetching_snapshot()
    for losses in (1, 2, 3):
        talk.answer(piece(0, DATA[:4]))
        talk.answer(piece(4, b""))
        role = talk.raft.role
        assert isinstance(role, Follower)
        assert role.loss.losses == losses, "a good piece makes up for nothing"
        until = role.loss.until
        talk.at(until)
        talk.answer(fetched(snapshot_id=SNAPSHOT))
    talk.answer(piece(0, DATA))
    assert talk.raft.role.loss is None


# --- leaders in responses


BOOTED = Identity(7, bytes([7]) * 16, "ours", bootstrap=(Peer(-2, "boot", 9),))


def test_node_answering_fetch_leads_at_asked_address():
    talk = Talk(me=BOOTED)
    talk.answer(fetched(leader_id=8))
    assert talk.raft.leader_peer == Peer(8, "boot", 9)


def test_address_given_by_leader_takes_precedence():
    talk = Talk(me=BOOTED)
    talk.answer(fetched(leader_id=8, leader=Peer(8, "there", 8)))
    assert talk.raft.leader_peer == Peer(8, "there", 8)


def test_node_refusing_fetch_is_not_taken_for_leader():
    talk = Talk(me=BOOTED)
    talk.answer(fetched(leader_id=8, error=int(ErrorCode.NOT_LEADER_OR_FOLLOWER)))
    assert (talk.raft.leader_id, talk.raft.leader_peer) == (8, None)


def test_only_fetch_answer_proves_leadership():
    log, me = dynamic(1, 2, 3)
    talk = Talk(log, me=me)
    talk.at(talk.raft.role.deadline)
    assert isinstance(talk.raft.role, Prospective)
    talk.answer(core.VoteResponse(epoch=0, leader_id=8))
    assert isinstance(talk.raft.role, Prospective)


# --- backoffs


@pytest.mark.parametrize(
    "answer",
    [
        fetched(epoch=-1, error=int(ErrorCode.INCONSISTENT_CLUSTER_ID)),
        fetched(epoch=2, records=b"x"),
        fetched(leader_id=-1, records=b"x"),
        fetched(error=int(ErrorCode.UNKNOWN_LEADER_EPOCH)),
    ],
    ids=str,
)
def test_useless_answer_is_not_requested_again_immediately(answer):
    talk = follower_of_2()
    talk.answer(answer)
    assert backs_off(talk, 2)
    assert talk.taken == []


def test_leaderless_peer_is_not_asked_again_immediately():
    talk = Talk(election=ElectionState(5))
    assert targets_since(talk) == [2]
    talk.answer(core.FetchResponse(epoch=5, leader_id=-1, records=b"x"))
    assert backs_off(talk, 2)
    assert (talk.taken, targets_since(talk)) == ([], [2, 3])


def test_silent_peer_is_retried_despite_other_request():
    talk = follower_of_2()
    count = len(talk.sent)
    talk.fail(talk.tokens[-1])
    assert targets_since(talk, count) == [3]
    talk.fail(talk.tokens[-1])
    talk.at(talk.now + TIMES.retry_backoff)
    assert targets_since(talk, count) == [3, 2]


def test_answer_resets_the_next_pause():
    talk = follower_of_2(me=TWO)

    def pause() -> float:
        talk.fail(talk.tokens[-1])
        before, count = talk.now, len(talk.sent)
        while len(talk.sent) == count:
            talk.at(talk.raft.deadline())
        return talk.now - before

    assert [pause(), pause()] == pytest.approx([0.02, 0.04])
    talk.answer(fetched())
    assert pause() == pytest.approx(0.02)


# --- duplicate responses


def test_second_address_is_ignored_during_leader_fetch():
    """The second address may be that of a bootstrap server: the batch would be appended twice."""
    talk = follower_of_2(me=OBSERVER)
    talk.at(TIMES.fetch_max_wait + TIMES.patience)
    other = talk.sent[-1].to.id
    assert other != 2, "the leader is late"
    talk.answer(fetched(records=b"x"))
    assert talk.taken == []
    assert backs_off(talk, other)


def test_second_address_counts_once_after_leader_fetch():
    talk = follower_of_2(me=OBSERVER)
    late = talk.tokens[-1]
    talk.at(TIMES.fetch_max_wait + TIMES.patience)
    other = talk.tokens[-1]
    entry = Entry(0, 1, 3, 0, 0)
    talk.answer(fetched(records=[entry]), late)
    asking = talk.sent[-1]
    if asking.to.id == 2:
        talk.fail(asking.token)
    assert len(talk.taken) == 1
    talk.answer(fetched(records=[entry]), other)
    assert len(talk.taken) == 1


# --- flushes


def test_complete_flush_restarts_the_leaders_timeout():
    talk = follower_of_2()
    bring(talk)
    bring_more = Entry(1, 2, 3, 1, 1)
    talk.log.append(bring_more)
    deadline = talk.raft.role.deadline
    talk.now = 1.0
    talk.flush(1)
    assert talk.raft.role.deadline == deadline
    talk.flush()
    assert talk.raft.role.deadline == talk.now + TIMES.fetch


def test_own_flush_does_not_revive_leader():
    talk = follower_of_2()
    bring(talk)
    talk.gone(2)
    deadline = talk.raft.role.deadline
    talk.now = deadline / 2
    talk.flush()
    assert talk.raft.role.deadline == deadline


def test_flushing_observer_has_no_leader_deadline():
    talk = follower_of_2(me=OBSERVER)
    bring(talk)
    talk.flush()
    assert talk.raft.role.deadline == inf


def test_voter_fetches_only_after_its_flush():
    """This holds for any target: a fetch from an offset acknowledges everything below (R6)."""
    talk = follower_of_2()
    bring(talk)
    count = len(talk.sent)
    talk.ask(vote(epoch=9, end_offset=0))
    assert isinstance(talk.raft.role, Unattached)
    assert len(talk.sent) == count
    talk.flush()
    assert isinstance(talk.sent[-1].request, core.FetchRequest)
    assert talk.sent[-1].request.fetch_offset == 1


# --- voter sets from the log


def test_node_that_becomes_voter_watches_its_leader():
    """The set takes effect when it is appended, committed or not."""
    log, _ = dynamic(1, 2, 3)
    me = Identity(
        4, key(4).directory_id, "ours", endpoints=endpoints(4), listener="C", is_controller=True
    )
    talk = Talk(log, me=me)
    talk.ask(BEGIN._replace(endpoints=(VoterEndpoint("C", "test", 2),)))
    assert talk.raft.role.deadline == inf
    four = log.history.voters.add(Voter(key(4), endpoints(4), 0, 1))
    entry = Entry(0, 1, 3, 0, 0, (VotersChange(four),))
    talk.answer(fetched(records=[entry]))
    assert talk.raft.high_watermark is None
    assert talk.raft.role.deadline < inf
