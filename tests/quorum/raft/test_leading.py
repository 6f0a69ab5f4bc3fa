"""Rules of a leader: responses to fetches and their times, the majority that supports it, and its deadlines."""

from __future__ import annotations

import pytest

from tests.quorum.raft.test_changing import add, fetched, key, leader_of, remove
from tests.quorum.raft.test_core import (
    ME,
    ME_AS_VOTER,
    OBSERVER,
    SET,
    Talk,
    fetch,
    log_of,
)
from tests.quorum.raft.test_elections import asked_for_votes, stand
from trimaran.quorum.raft import messages as core
from trimaran.quorum.raft.leader_state import (
    OBSERVER_SECONDS,
    OBSERVERS_MAX,
    FetchProgress,
    LeaderState,
)
from trimaran.quorum.raft.leading import MAX_WAIT
from trimaran.quorum.raft.roles import Leader, Resigned
from trimaran.quorum.raft.types import (
    ElectionState,
    Identity,
    OffsetAndEpoch,
    Peer,
    ReplicaKey,
    Timeouts,
)
from trimaran.quorum.raft.voters import Voter, VoterSet
from trimaran.wire.errors import ErrorCode

TIMES = Timeouts()
FIVE = Identity(1, bytes([1]) * 16, "ours", {i: Peer(i, "test", i) for i in range(1, 6)})


def leader_state(voters: VoterSet = SET) -> LeaderState:
    return LeaderState.begin(ME_AS_VOTER, voters, TIMES, 0, frozenset(), 0.0)


# --- fetches


def test_wait_of_fetch_is_bounded():
    talk = Talk().lead()
    talk.ask(fetch(fetch_offset=1, last_fetched_epoch=1, high_watermark=1, max_wait=1e6))
    (waiting,) = talk.raft.role.leader_state.deferred.values()
    assert waiting.expires == talk.now + MAX_WAIT


def test_nothing_is_read_when_nothing_is_available():
    talk = Talk().lead()
    answer = talk.ask(fetch(fetch_offset=1, last_fetched_epoch=1, max_wait=0.0))
    assert isinstance(answer, core.FetchResponse)
    assert (answer.error, answer.read) == (0, None)


@pytest.mark.parametrize(
    ("asked", "read"),
    [(-1, 0), (0, 0), (100, 100), (TIMES.fetch_max_bytes + 1, TIMES.fetch_max_bytes)],
)
def test_read_size_is_limited_by_request_and_maximum(asked, read):
    answer = Talk().lead().ask(fetch(max_bytes=asked))
    assert isinstance(answer, core.FetchResponse)
    assert answer.read is not None
    assert answer.read.max_bytes == read


def test_observer_claiming_too_high_watermark_gets_records():
    talk = Talk().lead()
    talk.ask(fetch(fetch_offset=1, last_fetched_epoch=1))
    answer = talk.ask(fetch(replica=OBSERVER, high_watermark=99))
    assert isinstance(answer, core.FetchResponse)
    assert answer.read is not None


def test_anonymous_observer_is_served_but_not_remembered():
    talk = Talk().lead()
    nobody = fetch(replica=ReplicaKey(-1))
    assert talk.ask(nobody) is None, "nothing is committed yet"
    answer = talk.ask(nobody._replace(max_wait=0.0))
    assert isinstance(answer, core.FetchResponse)
    assert answer.read is not None
    assert talk.raft.role.leader_state.observers == {}


# --- snapshots


@pytest.mark.parametrize(
    ("asked", "read"),
    [(-1, 1), (0, 1), (10, 10), (TIMES.snapshot_max_bytes + 1, TIMES.snapshot_max_bytes)],
)
def test_snapshot_piece_size_is_bounded(asked, read):
    log = log_of((1, 1))
    log.add_snapshot(OffsetAndEpoch(1, 1), b"x" * 40)
    answer = Talk(log, ElectionState(1)).lead().ask(snapshot(max_bytes=asked))
    assert isinstance(answer, core.FetchSnapshotResponse)
    assert answer.read == (OffsetAndEpoch(1, 1), 0, read)


def snapshot(**changes: object) -> core.FetchSnapshotRequest:
    plain = core.FetchSnapshotRequest(
        cluster_id="ours",
        epoch=2,
        replica=ReplicaKey(2),
        snapshot_id=OffsetAndEpoch(1, 1),
        position=0,
        max_bytes=10,
    )
    return plain._replace(**changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("has_snapshot", [False, True])
@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"cluster_id": "theirs"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"epoch": 1}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"epoch": 3}, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_unauthorized_snapshot_fetch_is_refused_first(has_snapshot, changes, code):
    log = log_of((1, 1))
    if has_snapshot:
        log.add_snapshot(OffsetAndEpoch(1, 1), b"x")
    answer = Talk(log, ElectionState(1)).lead().ask(snapshot(position=99, **changes))
    assert answer is not None
    assert answer.error == code


# --- support of a leader


def led(me: Identity = ME) -> Talk:
    """Returns a leader of epoch 2 that has a snapshot."""
    log = log_of((1, 1))
    log.add_snapshot(OffsetAndEpoch(1, 1), b"x" * 40)
    talk = stand(Talk(log, ElectionState(1), me))
    for token in asked_for_votes(talk).values():
        talk.answer(core.VoteResponse(epoch=talk.raft.epoch, granted=True), token)
    for token in asked_for_votes(talk).values():
        talk.answer(core.VoteResponse(epoch=talk.raft.epoch, granted=True), token)
    assert isinstance(talk.raft.role, Leader)
    return talk


@pytest.mark.parametrize(
    ("request_", "counts"),
    [
        (fetch(epoch=2, fetch_offset=1, last_fetched_epoch=1), True),
        (snapshot(), True),
        (fetch(epoch=2, fetch_offset=1, last_fetched_epoch=1, replica=OBSERVER), False),
        (snapshot(replica=OBSERVER), False),
        (snapshot(replica=ReplicaKey(1, bytes([1]) * 16)), False),
    ],
    ids=["fetch", "snapshot", "fetch of an observer", "snapshot of one", "under our own id"],
)
def test_fetching_majority_supports_the_leader(request_, counts):
    """R11: any kind of fetch counts, but no other request."""
    talk = led()
    before = talk.raft.role.leader_state.check_deadline
    talk.now += 1.0
    talk.ask(request_)
    after = talk.raft.role.leader_state.check_deadline
    assert after == (talk.now + TIMES.check_quorum if counts else before)


def test_each_majority_counts_once():
    """With five voters two others are needed, again in each period."""
    talk = led(FIVE)
    fetches = [
        fetch(epoch=2, fetch_offset=1, last_fetched_epoch=1, replica=ReplicaKey(i)) for i in (2, 3)
    ]
    for request in fetches:
        talk.ask(request)
    deadline = talk.raft.role.leader_state.check_deadline
    assert deadline == talk.now + TIMES.check_quorum
    talk.now += 1.0
    talk.ask(fetches[0])
    assert talk.raft.role.leader_state.check_deadline == deadline
    talk.ask(fetches[1])
    assert talk.raft.role.leader_state.check_deadline > deadline


def test_leader_wakes_to_resign_exactly_at_deadline():
    talk = led()
    talk.now += 0.3
    talk.ask(fetch(epoch=2, fetch_offset=1, last_fetched_epoch=1, max_wait=0.0))
    deadline = talk.raft.role.leader_state.check_deadline
    while isinstance(talk.raft.role, Leader):
        talk.at(talk.raft.deadline())
    assert isinstance(talk.raft.role, Resigned)
    assert talk.now == deadline


# --- announcements


def test_announcement_is_repeated_to_silent_voters():
    timeouts = Timeouts(request=0.5)
    talk = Talk(timeouts=timeouts).lead()
    until = talk.now + 2.5
    while talk.now < until:
        talk.at(talk.raft.deadline())
    told = [
        exchange.to.id
        for exchange in talk.sent
        if isinstance(exchange.request, core.BeginQuorumEpochRequest)
    ]
    assert told == [2, 3] * 3, "at once and after each half of the fetch timeout"


# --- knowledge of the replicas


def test_caught_up_time_is_that_of_last_fetch():
    progress = FetchProgress(ReplicaKey(2))
    progress.fetched(0, 10, 1.0)
    assert progress.last_caught_up == float("-inf"), "never"
    progress.fetched(9, 20, 2.0)
    assert progress.last_caught_up == float("-inf"), "it had not all there was at its last fetch"
    progress.fetched(20, 30, 3.0)
    assert progress.last_caught_up == 2.0
    progress.fetched(35, 40, 4.0)
    assert progress.last_caught_up == 3.0
    progress.fetched(40, 40, 5.0)
    assert progress.last_caught_up == 5.0


def test_progress_reports_whether_watermark_moved():
    state = leader_state()
    assert not state.flushed(1)
    assert state.fetched_by(ReplicaKey(2), 1, 1, 0.0)
    assert not state.fetched_by(ReplicaKey(2), 1, 1, 0.0)
    assert not state.fetched_by(ReplicaKey(3), 1, 1, 0.0)
    assert state.high_watermark == 1


def test_leader_is_not_its_own_observer():
    state = leader_state()
    changed = VoterSet.of([*SET, Voter(ReplicaKey(4))])
    state.update_voters(changed, 0.0)
    assert state.observers == {}
    assert set(state.voters) == {1, 2, 3, 4}


def test_only_silent_observers_are_evicted_when_full(monkeypatch):
    monkeypatch.setattr("trimaran.quorum.raft.leader_state.OBSERVERS_MAX", 2)
    assert OBSERVERS_MAX > 2
    state = leader_state()

    def ids() -> list[int]:
        return [replica.id for replica in state.observers]

    state.fetched_by(ReplicaKey(7), 1, 9, 1000.0)
    now = 1000.0 + OBSERVER_SECONDS + 10
    state.fetched_by(ReplicaKey(8), 1, 9, now - 10)
    assert ids() == [7, 8], "there is room"
    assert [active_observer.key.id for active_observer in state.active_observers(now)] == [8]
    state.fetched_by(ReplicaKey(9), 1, 9, now)
    assert ids() == [8, 9]
    state.fetched_by(ReplicaKey(10), 1, 9, now)
    assert ids() == [8, 9], "nobody makes place for a new one who is there"
    state.fetched_by(ReplicaKey(8), 5, 9, now)
    assert state.observers[ReplicaKey(8)].end_offset == 5


def test_leader_wakes_for_late_change_or_earlier_deadline():
    alone = leader_of(1)
    alone.ask(fetched(2, alone))
    alone.ask(add(2))
    assert alone.raft.role.leader_state.deadline() == alone.now + TIMES.request
    three = leader_of(1, 2, 3)
    three.ask(remove(3))
    state = three.raft.role.leader_state
    assert state.deadline() == state.begin_deadline < state.change.expires
    assert key(3) not in state.voter_set
